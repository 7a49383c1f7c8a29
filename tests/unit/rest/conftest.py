"""A server around a controller that does what a test says."""

from __future__ import annotations

import http.client
import json

import pytest

from penstock.rest.routing.routes import Services
from penstock.rest.server.limits import RequestLimits
from penstock.rest.server.rest_server import RestServer
from tests.builders.publishing import publisher  # noqa: F401  - a fixture
from tests.builders.rest_fakes import NOW, TOKEN, FakeController


class Client:
    """Speaks HTTP to a server, with what headers a test wants."""

    def __init__(self, server):
        self.server = server

    def __call__(self, method, path, body=None, token=TOKEN, **headers):
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        host, port = self.server.server_address[:2]
        connection = http.client.HTTPConnection(host, port, timeout=60)
        text = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, text, headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        self.headers = response.headers
        return response.status, json.loads(content) if content else None


@pytest.fixture
def services():
    return Services(now_ms=lambda: NOW)


@pytest.fixture
def controller(services):
    controller = FakeController(job_id="a" * 32)
    services.jobs.publish(controller)
    return controller


@pytest.fixture
def start_server(services):
    servers = []

    def start(limits=None, *, begin=True, **options):
        limits = limits or RequestLimits(processor_share=1.0, arrival_s=60)
        server = RestServer(services, TOKEN, limits=limits, **options)
        if begin:
            server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def ask(start_server):
    return Client(start_server())


@pytest.fixture
def make_controller():
    return FakeController


@pytest.fixture
def make_client():
    return Client
