"""A small API server of Kubernetes: Leases that carry resource versions, as the real one keeps them; and changes of Deployments are noted.

What is written with a version that is not the newest is refused with 409, as is what exists already; every change gives a new version. It
can be told to stop answering.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_GROUP = "/apis/coordination.k8s.io/v1/namespaces/"


class FakeKubernetes:
    """The server, on a free port of the loopback address."""

    def __init__(self) -> None:
        self.leases: dict[tuple[str, str], dict[str, Any]] = {}
        self.broken = False  # every request is answered with 500
        self.patches: list[tuple[str, Any]] = []  # of Deployments
        self._versions = 0
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"cluster": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def write_config(self, path: Path) -> str:
        """Write a kubeconfig file that leads here, and return its path."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "fake", "user": {}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        }
        path.write_text(json.dumps(config))  # which is YAML too
        return str(path)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, path: str, body: Any) -> tuple[HTTPStatus, Any]:
        """Do what is asked for; return status and answer."""
        if self.broken:
            return _refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "broken")
        namespace, _, rest = path.removeprefix(_GROUP).partition("/")
        kind, _, name = rest.partition("/")
        if not path.startswith(_GROUP) or kind != "leases":
            return _refuse(HTTPStatus.NOT_FOUND, f"nothing at {path}")
        with self._lock:
            if method == "POST":
                return self._create(namespace, body)
            if (namespace, name) not in self.leases:
                return _refuse(HTTPStatus.NOT_FOUND, f"lease {name} not found")
            if method == "DELETE":
                return HTTPStatus.OK, self.leases.pop((namespace, name))
            return HTTPStatus.OK, self.leases[namespace, name]

    def replace(self, path: str, body: Any) -> tuple[HTTPStatus, Any]:
        """Replace an object, if what is there is what the client has read."""
        status, found = self.answer("GET", path, None)
        if status is not HTTPStatus.OK:
            return status, found
        key = found["metadata"]["namespace"], found["metadata"]["name"]
        with self._lock:
            current = self.leases[key]["metadata"]["resourceVersion"]
            if body["metadata"].get("resourceVersion", current) != current:
                return _refuse(HTTPStatus.CONFLICT, "the object has been modified")
            kept = {
                part: self.leases[key]["metadata"][part] for part in ("creationTimestamp", "uid")
            }
            return HTTPStatus.OK, self._store(key, body, kept)

    def patch(self, path: str, body: Any) -> tuple[HTTPStatus, Any]:
        """Take note of a change of a Deployment."""
        if self.broken or "/deployments/" not in path:
            return _refuse(HTTPStatus.FORBIDDEN, f"{path} may not be changed")
        self.patches.append((path, body))
        return HTTPStatus.OK, {"apiVersion": "apps/v1", "kind": "Deployment"}

    def _create(self, namespace: str, body: Any) -> tuple[HTTPStatus, Any]:
        key = namespace, body["metadata"]["name"]
        if key in self.leases:
            return _refuse(HTTPStatus.CONFLICT, "already exists")
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        made = {"creationTimestamp": now, "uid": f"uid-{self._versions}"}
        return HTTPStatus.CREATED, self._store(key, body, made)

    def _store(self, key: tuple[str, str], body: Any, more: dict[str, Any]) -> Any:
        self._versions += 1
        metadata = {
            **body["metadata"],
            **more,
            "namespace": key[0],
            "resourceVersion": str(self._versions),
        }
        self.leases[key] = {**body, "metadata": metadata}
        return self.leases[key]


class _Handler(BaseHTTPRequestHandler):
    cluster: FakeKubernetes
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(*self.cluster.answer("GET", self.path, None))

    def do_DELETE(self) -> None:
        self._body()
        self._send(*self.cluster.answer("DELETE", self.path, None))

    def do_POST(self) -> None:
        self._send(*self.cluster.answer("POST", self.path, self._body()))

    def do_PATCH(self) -> None:
        self._send(*self.cluster.patch(self.path, self._body()))

    def do_PUT(self) -> None:
        self._send(*self.cluster.replace(self.path, self._body()))

    def _body(self) -> Any:
        length = int(self.headers.get("Content-Length") or 0)
        return json.loads(self.rfile.read(length) or b"null")

    def _send(self, status: HTTPStatus, answer: Any) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def _refuse(status: HTTPStatus, message: str) -> tuple[HTTPStatus, Any]:
    answer = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": status.phrase.replace(" ", ""),
        "code": status.value,
    }
    return status, answer
