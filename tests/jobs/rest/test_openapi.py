"""The API keeps to its own description: requests that schemathesis makes up, right ones and wrong ones, against a job that runs."""

from __future__ import annotations

import os
from functools import cache

import hypothesis
import pytest
import requests
from hypothesis import HealthCheck, given, settings

from penstock.common.job_status import JobStatus
from penstock.rest.resources import ROUTES
from penstock.rest.routing.openapi import document
from penstock.rest.routing.routes import Services
from penstock.rest.server.limits import RequestLimits
from penstock.rest.server.rest_server import RestServer
from tests.builders.cases import check_all, part
from tests.builders.published_job import run_numbers
from tests.builders.rest_fakes import FakeController

TOKEN = "the token"
# Requests per method of a path. The streams of the page do not end; what ends the process is not for here.
SOAKS = "PENSTOCK_SOAK" in os.environ
EXAMPLES = 60 if SOAKS else 1
TIMEOUT_S = 120  # for an answer; without it schemathesis waits for ten seconds
_ENDLESS = {"/penstock/live"}
#: The operations are asked in so many tests, so that workers can share them.
PARTS = 8


@cache
def operations():
    """All operations by their method and path. Schemathesis takes a second to load, so only these tests do."""
    import schemathesis

    schema = schemathesis.openapi.from_dict(document(ROUTES))
    return {
        f"{operation.method.upper()} {operation.path}": operation
        for operation in (result.ok() for result in schema.get_all_operations())
        if operation.path not in _ENDLESS
    }


def checks():
    """What is asked of every answer; the last two hold only for requests that are made up entirely."""
    from schemathesis import checks as all_checks

    return [
        all_checks.not_a_server_error,
        all_checks.status_code_conformance,
        all_checks.content_type_conformance,
        all_checks.response_headers_conformance,
        all_checks.response_schema_conformance,
        all_checks.unsupported_method,
        all_checks.negative_data_rejection,
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    services = Services()
    with run_numbers(services, tmp_path_factory.mktemp("openapi")) as job_id:
        server = RestServer(services, TOKEN, limits=RequestLimits(processor_share=1.0))
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
    from schemathesis import GenerationMode

    if SOAKS or operation.body or operation.query:
        return (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    return (GenerationMode.POSITIVE,)


@pytest.mark.parametrize("number", range(PARTS))
def test_answers_keep_to_the_description(server, session, number):
    check_all(part(operations(), number, PARTS), lambda operation: ask(server, session, operation))


def ask(server, session, operation):
    """Send an operation requests that are made up, and check the answers."""
    url = f"http://{server.client_address}/v1"
    vertex = session.get(f"{url}/jobs/{server.job_id}").json()["vertices"][0]["id"]

    reads = operation.method.upper() == "GET"
    changed = str(server.changed.get_job_id())
    known = {"jobid": server.job_id, "vertexid": vertex} if reads else {"jobid": changed}
    wanted = checks()

    def check(case):
        case.call_and_validate(base_url=url, session=session, checks=wanted, timeout=TIMEOUT_S)
        if set(known) & set(case.path_parameters or {}):
            server.changed.status = JobStatus.RUNNING
            case.path_parameters = {**case.path_parameters, **known}
            case.call_and_validate(base_url=url, session=session, checks=wanted[:-2])

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
            assert mode.is_negative  # nothing about it can be wrong


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
