"""An S3 server in the process of the tests: clients speak HTTP to it, and it tells what it was asked."""

from __future__ import annotations

import logging
import threading
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from pyarrow import fs

BUCKET = "streams"
KEY, SECRET = "penstock", "very-secret"
_PATIENCE_S = 300


@dataclass(frozen=True)
class Request:
    """A method, the key in the bucket that it is about, and what follows the question mark."""

    method: str
    key: str
    query: str

    def __str__(self):
        kind = "LIST" if "list-type" in self.query else self.method
        return f"{kind} {self.key}".rstrip()


class S3Server:
    """Serves one bucket on a port of its own."""

    def __init__(self):
        # moto takes half a second to load, so only workers that start a server load it.
        from moto.moto_server.werkzeug_app import MotoRequestHandler
        from moto.server import create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._application = create_backend_app("s3")
        self._asked = []
        self._refuse = None
        self._gathering = None
        self._server = make_server(
            "127.0.0.1", 0, self._answer, threaded=True, request_handler=MotoRequestHandler
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.endpoint = f"127.0.0.1:{self._server.server_port}"
        self.files = fs.S3FileSystem(
            access_key=KEY,
            secret_key=SECRET,
            endpoint_override=self.endpoint,
            scheme="http",
            region="us-east-1",
            connect_timeout=_PATIENCE_S,
            request_timeout=_PATIENCE_S,
        )
        # The first request loads moto's model of S3. pyarrow would give up after three seconds without an answer.
        create = urllib.request.Request(f"http://{self.endpoint}/{BUCKET}", method="PUT")
        with urllib.request.urlopen(create, timeout=_PATIENCE_S):
            pass

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @contextmanager
    def requests(self) -> Iterator[list[Request]]:
        """Collect what is asked in the meantime."""
        self._asked = found = []
        yield found
        self._asked = []

    @contextmanager
    def refusing(self, status, code):
        """Answer everything with an error."""
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"
        self._refuse = (status, text.encode())
        try:
            yield
        finally:
            self._refuse = None

    @contextmanager
    def gathering(self, method, count):
        """Answer requests of a method only when they have come for so many keys."""
        self._gathering = (method, count, set(), threading.Condition())
        try:
            yield
        finally:
            self._gathering = None

    def _answer(self, environ, start_response):
        key = environ["PATH_INFO"].removeprefix(f"/{BUCKET}").lstrip("/")
        self._asked.append(Request(environ["REQUEST_METHOD"], key, environ["QUERY_STRING"]))
        if self._gathering is not None and environ["REQUEST_METHOD"] == self._gathering[0]:
            _, count, keys, changed = self._gathering
            with changed:
                keys.add(key)
                changed.notify_all()
                assert changed.wait_for(lambda: len(keys) >= count, 30)
        if self._refuse is None:
            return self._application(environ, start_response)
        status, text = self._refuse
        start_response(f"{status} Refused", [("Content-Type", "application/xml")])
        return [text]


class Place:
    """A prefix of the bucket, as a directory for one test."""

    def __init__(self, server, prefix):
        self.server = server
        self.prefix = prefix

    def uri(self, path=""):
        """Return the URI of a path, as it is written for a store that is not Amazon's."""
        options = f"endpoint_override={self.server.endpoint}&scheme=http&region=us-east-1"
        return f"s3://{self._path(path)}?{options}"

    def list(self, path=""):
        """Return the files below a path, relative to it."""
        root = self._path(path)
        found = self.server.files.get_file_info(
            fs.FileSelector(root, recursive=True, allow_not_found=True)
        )
        return sorted(each.path[len(root) + 1 :] for each in found if each.is_file)

    def read(self, path):
        with self.server.files.open_input_stream(self._path(path), compression=None) as stream:
            return stream.read()

    def write(self, path, data):
        with self.server.files.open_output_stream(self._path(path), compression=None) as stream:
            stream.write(data)

    def make_directory(self, path):
        """Write the marker that stands for an empty directory."""
        self.server.files.create_dir(self._path(path))

    def copy(self, source, target):
        """Copy a directory."""
        for name in self.list(source):
            self.write(f"{target}/{name}", self.read(f"{source}/{name}"))

    def delete_file(self, path):
        self.server.files.delete_file(self._path(path))

    def delete(self, path):
        self.server.files.delete_dir(self._path(path))

    def _path(self, path):
        return f"{BUCKET}/{self.prefix}/{path}".rstrip("/")


@pytest.fixture(scope="session")
def server():
    running = S3Server()
    yield running
    running.close()


@pytest.fixture
def s3(server, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return Place(server, uuid.uuid4().hex)
