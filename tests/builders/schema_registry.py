"""A schema registry over HTTP that keeps Confluent's REST contract: ids, versions, references, compatibility, error codes."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fastavro
from fastavro.schema import SchemaParseException
from fastavro.utils import generate_many


class RefusedError(Exception):
    def __init__(self, status, code, message):
        self.status, self.body = status, {"error_code": code, "message": message}


class RegistryServer:
    """Schemas by subject. `fail_next` requests are answered with 503; with `auth` others are refused."""

    def __init__(self, auth=None):
        self.schemas = []  # (type, text, references): the id is the index plus 1
        self.subjects = {}  # subject -> ids by version
        self.auth = auth
        self.fail_next = 0
        self.requests = []
        self.lock = threading.Lock()
        self.server = None

    def start(self, port=0):
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer(None)

            def do_POST(self):
                self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def answer(self, body):
                path = urllib.parse.urlsplit(self.path).path
                with registry.lock:
                    try:
                        registry.check(self.headers)
                        registry.requests.append((self.command, path))
                        status, reply = 200, registry.handle(self.command, path, body)
                    except RefusedError as error:
                        status, reply = error.status, error.body
                data = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    @property
    def port(self):
        return self.server.server_port

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def check(self, headers):
        if self.fail_next:
            self.fail_next -= 1
            raise RefusedError(503, 50003, "the leader is away")
        if self.auth is not None:
            expected = self.auth
            if ":" in expected:
                expected = f"Basic {base64.b64encode(expected.encode()).decode()}"
            if headers.get("Authorization") != expected:
                raise RefusedError(401, 401, "Unauthorized")

    def handle(self, method, path, body):
        parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
        match (method, parts):
            case ("GET", ["schemas", "ids", number]):
                return self.by_id(int(number))
            case ("POST", ["subjects", subject, "versions"]):
                return {"id": self.register(subject, body)}
            case ("POST", ["subjects", subject]):
                return self.lookup(subject, body)
            case ("GET", ["subjects", subject, "versions", version]):
                return self.version(subject, version)
        raise RefusedError(404, 404, "HTTP 404 Not Found")

    def by_id(self, number):
        if not 1 <= number <= len(self.schemas):
            raise RefusedError(404, 40403, f"Schema {number} not found")
        kind, text, references = self.schemas[number - 1]
        reply = {"schema": text}
        if kind != "AVRO":
            reply["schemaType"] = kind
        if references:
            reply["references"] = json.loads(references)
        return reply

    def register(self, subject, body):
        entry = self.entry(body)
        known = self.subjects.setdefault(subject, [])
        for number in known:
            if self.schemas[number - 1] == entry:
                return number
        if known and entry[0] == "AVRO":
            self.check_backward(self.schemas[known[-1] - 1], entry, subject)
        if entry not in self.schemas:
            self.schemas.append(entry)
        known.append(self.schemas.index(entry) + 1)
        return known[-1]

    def entry(self, body):
        kind = body.get("schemaType") or "AVRO"
        text = body["schema"]
        references = json.dumps(body.get("references") or []) if body.get("references") else ""
        if kind in {"AVRO", "JSON"}:
            try:
                text = json.dumps(json.loads(text), separators=(",", ":"))
                if kind == "AVRO":
                    self.parse((kind, text, references))
            except (ValueError, SchemaParseException) as error:
                raise RefusedError(422, 42201, f"Invalid schema: {error}") from None
        return kind, text, references

    def parse(self, entry, named=None):
        named = {} if named is None else named
        for each in json.loads(entry[2] or "[]"):
            number = self.version(each["subject"], each["version"])["id"]
            self.parse(self.schemas[number - 1], named)
        return fastavro.parse_schema(json.loads(entry[1]), named)

    def check_backward(self, old, new, subject):
        """Refuse a schema that cannot read what was written with the one before."""
        writer, reader = self.parse(old), self.parse(new)
        for record in generate_many(writer, 5):
            data = io.BytesIO()
            fastavro.schemaless_writer(data, writer, record)
            data.seek(0)
            try:
                fastavro.schemaless_reader(data, writer, reader)
            except Exception:
                message = f'Schema being registered is incompatible with an earlier schema for subject "{subject}"'
                raise RefusedError(409, 409, message) from None

    def lookup(self, subject, body):
        if subject not in self.subjects:
            raise RefusedError(404, 40401, f"Subject '{subject}' not found.")
        entry = self.entry(body)
        for version, number in enumerate(self.subjects[subject], 1):
            if self.schemas[number - 1] == entry:
                return {"subject": subject, "id": number, "version": version, "schema": entry[1]}
        raise RefusedError(404, 40403, "Schema not found")

    def version(self, subject, version):
        known = self.subjects.get(subject)
        if not known:
            raise RefusedError(404, 40401, f"Subject '{subject}' not found.")
        at = len(known) if version == "latest" else int(version)
        if not 1 <= at <= len(known):
            raise RefusedError(404, 40402, f"Version {version} not found.")
        number = known[at - 1]
        return {"subject": subject, "id": number, "version": at, **self.by_id(number)}


@contextlib.contextmanager
def registry_server(**options):
    server = RegistryServer(**options).start()
    try:
        yield server
    finally:
        server.stop()
