"""The API keeps to its own description: requests that schemathesis makes up, right ones and wrong ones, against a job that runs."""

from __future__ import annotations

import os

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    negative_data_rejection,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from penstock.common.job_status import JobStatus
from penstock.rest.limits import Limits
from penstock.rest.openapi import document
from penstock.rest.resources import ROUTES
from penstock.rest.routes import Services
from penstock.rest.server import RestServer
from tests.builders.published_job import run_numbers
from tests.builders.rest_fakes import FakeController

TOKEN = "the token"
# Requests per method of a path. The streams of the page do not end; what ends the process is not for here.
SOAKS = "PENSTOCK_SOAK" in os.environ
EXAMPLES = 60 if SOAKS else 1
_ENDLESS = {"/penstock/live"}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
    negative_data_rejection,
]

SCHEMA = schemathesis.openapi.from_dict(document(ROUTES))
OPERATIONS = {
    f"{operation.method.upper()} {operation.path}": operation
    for operation in (result.ok() for result in SCHEMA.get_all_operations())
    if operation.path not in _ENDLESS
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    services = Services()
    with run_numbers(services, tmp_path_factory.mktemp("openapi")) as job_id:
        server = RestServer(services, TOKEN, limits=Limits(processor_share=1.0))
        server.start()
        server.job_id = job_id
        # Requests that change something go to a job that does nothing.
        server.changed = FakeController()
        services.jobs.publish(server.changed)
        yield server
        server.close()


@pytest.fixture(scope="module")
def session():
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {TOKEN}"
        yield session


def modes(operation):
    """Wrong requests take long to make up where only the path can be wrong: those are few."""
    if SOAKS or operation.body or operation.query:
        return (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    return (GenerationMode.POSITIVE,)


@pytest.mark.parametrize("name", OPERATIONS)
def test_answers_keep_to_the_description(server, session, name):
    operation = OPERATIONS[name]
    url = f"http://{server.client_address}/v1"
    vertex = session.get(f"{url}/jobs/{server.job_id}").json()["vertices"][0]["id"]

    reads = name.startswith("GET")
    changed = str(server.changed.get_job_id())
    known = {"jobid": server.job_id, "vertexid": vertex} if reads else {"jobid": changed}

    def check(case):
        case.call_and_validate(base_url=url, session=session, checks=CHECKS)
        if set(known) & set(case.path_parameters or {}):
            server.changed.status = JobStatus.RUNNING
            case.path_parameters = {**case.path_parameters, **known}
            case.call_and_validate(base_url=url, session=session, checks=CHECKS[:-2])

    for mode in modes(operation):
        run = given(operation.as_strategy(generation_mode=mode))(check)
        run = settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=not SOAKS,
            database=None,
            suppress_health_check=list(HealthCheck),
        )(run)
        try:
            run()
        except hypothesis.errors.Unsatisfiable:
            assert mode is GenerationMode.NEGATIVE  # nothing about it can be wrong


def test_the_document_describes_all_routes(server, session):
    url = f"http://{server.client_address}"
    served = session.get(f"{url}/v1/openapi.json").json()
    assert served == session.get(f"{url}/openapi.json").json()
    described = {
        f"{method.upper()} {path}" for path, item in served["paths"].items() for method in item
    }
    assert "POST /jobs/{jobid}/savepoints" in described
    assert len(described) == len([route for route in ROUTES if "*" not in route.path])
    ids = [each["operationId"] for item in served["paths"].values() for each in item.values()]
    assert len(ids) == len(set(ids))
