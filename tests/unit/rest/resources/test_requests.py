"""What is asked of jobs over real HTTP: savepoints, stopping, rescaling, and what is refused."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from penstock.common.job_status import JobStatus
from penstock.errors import ArgumentError, CheckpointError, UnsupportedOperationError
from tests.builders.rest_fakes import NOW

ID = "a" * 32
JOB = f"/v1/jobs/{ID}"
BOUNDS = {"parallelism": {"lowerBound": 1, "upperBound": 2}}


@pytest.mark.parametrize(
    ("path", "body", "call", "location"),
    [
        ("savepoints", {"target-directory": "/d"}, ("trigger_savepoint", "/d"), "/d/savepoint-1"),
        ("savepoints", None, ("trigger_savepoint", None), "None/savepoint-1"),
        (
            "savepoints",
            {"target-directory": "/d", "cancel-job": True, "formatType": "CANONICAL"},
            ("stop_with_savepoint", False, "/d"),
            "/d/savepoint-2",
        ),
        (
            "stop",
            {"targetDirectory": "/d", "drain": True},
            ("stop_with_savepoint", True, "/d"),
            "/d/savepoint-2",
        ),
        ("stop", {}, ("stop_with_savepoint", False, None), "None/savepoint-2"),
    ],
    ids=["savepoint", "default directory", "cancel with savepoint", "stop and drain", "stop"],
)
def test_a_savepoint_is_triggered_and_its_path_asked_for(
    ask, controller, path, body, call, location
):
    status, answer = ask("POST", f"{JOB}/{path}", body)
    assert status == 202
    assert controller.calls == [call]
    assert ask("GET", f"{JOB}/savepoints/{answer['request-id']}") == (
        200,
        {"status": {"id": "COMPLETED"}, "operation": {"location": location}},
    )


def test_an_operation_is_in_progress_until_it_ends(ask, controller):
    controller.answers["trigger_savepoint"] = result = Future()
    _, answer = ask("POST", f"{JOB}/savepoints", {})
    status = f"{JOB}/savepoints/{answer['request-id']}"
    assert ask("GET", status)[1] == {"status": {"id": "IN_PROGRESS"}, "operation": None}
    result.set_exception(CheckpointError("the disk is full", hint="delete something"))
    _, content = ask("GET", status)
    assert content["status"]["id"] == "COMPLETED"
    failure = content["operation"]["failure-cause"]
    assert failure["class"] == "penstock.errors.CheckpointError"
    assert failure["message"] == "the disk is full\nhint: delete something"


def test_a_repeated_request_with_the_same_trigger_id_triggers_once(ask, controller):
    body = {"triggerId": "b" * 32}
    assert ask("POST", f"{JOB}/savepoints", body) == (202, {"request-id": "b" * 32})
    assert ask("POST", f"{JOB}/savepoints", body) == (202, {"request-id": "b" * 32})
    assert len(controller.calls) == 1
    assert ask("POST", f"{JOB}/rescale", {"parallelism": 2, **body})[0] == 409


def test_operations_of_other_jobs_and_kinds_are_not_shown(
    ask, controller, services, make_controller
):
    services.jobs.publish(make_controller(job_id="b" * 32))
    _, answer = ask("POST", f"{JOB}/savepoints", {})
    trigger = answer["request-id"]
    for path in (
        f"/jobs/{'b' * 32}/savepoints/{trigger}",
        f"/jobs/{ID}/rescale/{trigger}",
        f"/savepoint-disposal/{trigger}",
        f"/jobs/{ID}/savepoints/{'0' * 32}",
    ):
        assert ask("GET", path)[0] == 404, path


def test_a_job_is_cancelled_once(ask, controller):
    assert ask("PATCH", f"{JOB}?mode=cancel") == (202, {})
    assert ask("PATCH", JOB) == (202, {})
    assert controller.calls == [("cancel",)]
    status, content = ask("PATCH", f"{JOB}?mode=stop")
    assert (status, content["errors"][0]) == (400, "unknown mode 'stop'")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "savepoints", {}),
        ("POST", "stop", {}),
        ("POST", "rescale", {"parallelism": 2}),
        ("PUT", "resource-requirements", {}),
        ("PATCH", "", None),
    ],
)
def test_an_ended_job_refuses_requests_but_stays_visible(ask, controller, method, path, body):
    controller.status = JobStatus.FINISHED
    status, content = ask(method, f"{JOB}/{path}".rstrip("/"), body)
    assert (status, content) == (409, {"errors": [f"job 'clicks' ({ID}) is FINISHED"]})
    _, job = ask("GET", JOB)
    assert (job["state"], job["duration"], job["end-time"]) == ("FINISHED", 50_000, NOW - 10_000)


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ({"parallelism": 4}, (4,)),
        ({"vertices": {"count": 4}}, ({"count": 4},)),
        ({"parallelism": 4, "vertices": {"Map": 2, "v1": 1}}, (4, {"Map": 2, "v1": 1})),
    ],
    ids=["all", "some", "all and some"],
)
def test_a_job_is_rescaled_in_one_step(ask, controller, body, arguments):
    status, answer = ask("POST", f"{JOB}/rescale", body)
    assert status == 202
    assert controller.calls == [("rescale", *arguments)]
    _, content = ask("GET", f"{JOB}/rescale/{answer['request-id']}")
    assert content["operation"] == {"parallelism": {"Source: clicks": 2, "Map -> Sink": 4}}


def test_a_rescaling_that_fails_is_reported(ask, controller):
    controller.answers["rescale"] = Future()
    _, answer = ask("POST", f"{JOB}/rescale", {"parallelism": 999, "vertices": {"Map": 2}})
    controller.answers["rescale"].set_exception(ArgumentError("too much"))
    _, content = ask("GET", f"{JOB}/rescale/{answer['request-id']}")
    assert content["operation"]["failure-cause"]["message"] == "too much"


@pytest.mark.parametrize(
    ("body", "call"),
    [
        ({"v1": {"parallelism": {"lowerBound": 1, "upperBound": 8}}}, {"v1": 8}),
        ({"v1": {"parallelism": {"upperBound": -1}}}, {"v1": 128}),
        (
            {
                "v1": {"parallelism": {"lowerBound": 1, "upperBound": 2}},
                "v2": {"parallelism": {"lowerBound": 1, "upperBound": 1}},
            },
            {"v2": 1},
        ),
        ({"v1": {"parallelism": {"upperBound": 2}}}, None),
    ],
    ids=["one vertex", "as many as possible", "only what differs", "nothing differs"],
)
def test_resource_requirements_rescale_to_the_upper_bounds(ask, controller, body, call):
    assert ask("PUT", f"{JOB}/resource-requirements", body) == (200, {})
    assert controller.calls == ([] if call is None else [("rescale", call)])


def test_resource_requirements_are_read_in_the_shape_they_are_written_in(ask, controller):
    _, content = ask("GET", f"{JOB}/resource-requirements")
    assert content["v2"] == {"parallelism": {"lowerBound": 1, "upperBound": 3}}
    assert ask("PUT", f"{JOB}/resource-requirements", content) == (200, {})


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", f"{JOB}/savepoints", b"{", 400, "the body is not JSON"),
        ("POST", f"{JOB}/savepoints", b"[1]", 400, "the body is not a JSON object"),
        ("POST", f"{JOB}/savepoints", b"\xff", 400, "the body is not JSON"),
        ("POST", f"{JOB}/savepoints", {"directory": "/d"}, 400, "unknown field 'directory'"),
        ("POST", f"{JOB}/savepoints", {"target-directory": 1}, 400, "must be a string"),
        ("POST", f"{JOB}/savepoints", {"cancel-job": "yes"}, 400, "must be true or false"),
        ("POST", f"{JOB}/savepoints", {"triggerId": "x"}, 400, "32 hexadecimal digits"),
        ("POST", f"{JOB}/savepoints", {"triggerId": "b" * 32 + "\n"}, 400, "32 hexadecimal digits"),
        ("POST", f"{JOB}/savepoints", {"target-directory": ""}, 400, "that is not empty"),
        ("POST", f"{JOB}/savepoints", {"target-directory": "a\0"}, 400, "without NUL characters"),
        ("POST", f"{JOB}/savepoints", {"formatType": "JSON"}, 400, "CANONICAL or NATIVE"),
        ("POST", f"{JOB}/stop", {"drain": 1}, 400, "'drain' must be true or false"),
        ("POST", f"{JOB}/rescale", {}, 400, "has no parallelism"),
        ("POST", f"{JOB}/rescale", {"parallelism": 0}, 400, "positive integer"),
        ("POST", f"{JOB}/rescale", {"parallelism": True}, 400, "positive integer"),
        ("POST", f"{JOB}/rescale", {"vertices": [1]}, 400, "must be an object"),
        ("POST", f"{JOB}/rescale", {"vertices": {"Map": "2"}}, 400, "positive integer"),
        ("POST", f"{JOB}/rescale", {"vertices": {"nope": 2}}, 400, "unknown vertex 'nope'"),
        ("PUT", f"{JOB}/resource-requirements", {}, 400, "has no vertex"),
        ("PUT", f"{JOB}/resource-requirements", {"v9": BOUNDS}, 400, "unknown vertex 'v9'"),
        ("PUT", f"{JOB}/resource-requirements", {"v1": 3}, 400, "field 'v1' must be an object"),
        (
            "PUT",
            f"{JOB}/resource-requirements",
            {"v1": {}},
            400,
            "missing field 'parallelism' of 'v1'",
        ),
        (
            "PUT",
            f"{JOB}/resource-requirements",
            {"v1": {"parallelism": {"upperBound": -2}}},
            400,
            "field 'v1.parallelism.upperBound' must be a positive integer or -1",
        ),
        (
            "PUT",
            f"{JOB}/resource-requirements",
            {"v1": {"parallelism": {"lowerBound": 3, "upperBound": 2}}},
            400,
            "invalid parallelism of vertex v1: 3 to 2",
        ),
        (
            "PUT",
            f"{JOB}/resource-requirements",
            {"v1": {"parallelism": {"upperBound": 129}}},
            400,
            "invalid parallelism of vertex v1: 1 to 129",
        ),
        ("POST", "/savepoint-disposal", {}, 400, "missing field 'savepoint-path'"),
        ("GET", f"/v1/jobs/{'0' * 32}", None, 404, f"unknown job {'0' * 32}"),
        ("POST", f"/jobs/{'0' * 32}/savepoints", {}, 404, "unknown job"),
        ("GET", "/v1/nothing", None, 404, "unknown path /v1/nothing"),
        ("GET", "/v2/jobs", None, 404, "unknown path /v2/jobs"),
        ("DELETE", JOB, None, 405, "only GET, PATCH"),
        ("GET", f"{JOB}/stop", None, 405, "GET is not allowed"),
        ("BREW", JOB, None, 405, "BREW is not allowed"),
    ],
)
def test_a_wrong_request_gets_the_right_status(
    ask, controller, method, path, body, status, message
):
    got, content = ask(method, path, body)
    assert got == status
    assert list(content) == ["errors"]
    assert message in content["errors"][0]
    assert controller.calls == []


def test_the_answer_to_a_wrong_method_names_the_right_ones(ask, controller):
    ask("POST", JOB, {})
    assert ask.headers["Allow"] == "GET, PATCH"


@pytest.mark.parametrize(
    ("error", "status", "errors"),
    [
        (ArgumentError("no directory", hint="name one"), 400, ["no directory", "hint: name one"]),
        (UnsupportedOperationError("not here"), 501, ["not here"]),
        (CheckpointError("busy", detail="x"), 409, ["busy", "detail: x"]),
        (RuntimeError("a bug"), 500, ["RuntimeError: a bug"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_controller_rejects_is_answered_at_once(
    ask, controller, error, status, errors, caplog
):
    controller.answers["trigger_savepoint"] = error
    body = {"triggerId": "c" * 32}
    assert ask("POST", f"{JOB}/savepoints", body) == (status, {"errors": errors})
    assert bool(caplog.records) is (status == 500)
    del controller.answers["trigger_savepoint"]
    assert ask("POST", f"{JOB}/savepoints", body)[0] == 202


def test_a_savepoint_is_disposed_of(ask, monkeypatch):
    from penstock.savepoint import reader

    disposed = Future()
    monkeypatch.setattr(reader, "dispose_savepoint", disposed.set_result)
    status, answer = ask("POST", "/v1/savepoint-disposal", {"savepoint-path": "/sp/1"})
    assert (status, disposed.result(60)) == (202, "/sp/1")
    path = f"/v1/savepoint-disposal/{answer['request-id']}"
    while (content := ask("GET", path)[1])["status"]["id"] == "IN_PROGRESS":
        pass
    assert content == {"status": {"id": "COMPLETED"}, "operation": {}}


def test_a_job_is_rescaled_in_the_words_of_flinks_old_route(ask, controller):
    status, answer = ask("PATCH", f"{JOB}/rescaling?parallelism=4")
    assert (status, controller.calls) == (202, [("rescale", 4)])
    _, content = ask("GET", f"{JOB}/rescaling/{answer['request-id']}")
    assert content["operation"]["parallelism"]["Map -> Sink"] == 4
    for wrong in ("", "?parallelism=0", "?parallelism=x", "?parallelism=-1"):
        assert ask("PATCH", f"{JOB}/rescaling{wrong}")[0] == 400
