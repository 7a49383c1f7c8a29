"""The REST API over real HTTP: paths, JSON shapes, errors."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from penstock.common.job_status import JobStatus
from penstock.errors import ArgumentError, CheckpointError, UnsupportedOperationError
from penstock.graph.task_id import TaskId
from penstock.rest import taskmanagers
from penstock.rest.published_jobs import ENDED_JOBS
from penstock.runtime.network.messages import TaskAck
from tests.builders.rest_fakes import NOW

ID = "a" * 32
JOB = f"/v1/jobs/{ID}"


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_jobs_are_listed(ask, controller, prefix):
    assert ask("GET", f"{prefix}/jobs") == (200, {"jobs": [{"id": ID, "status": "RUNNING"}]})


def test_the_overview_has_flinks_fields(ask, controller):
    status, content = ask("GET", "/v1/jobs/overview")
    (job,) = content["jobs"]
    assert status == 200
    tasks = job.pop("tasks")
    assert (tasks["total"], tasks["running"], tasks["finished"]) == (5, 5, 0)
    assert job == {
        "jobType": "STREAMING",
        "schedulerType": "Default",
        "pending-operators": 0,
        "jid": ID,
        "name": "clicks",
        "state": "RUNNING",
        "start-time": NOW - 60_000,
        "end-time": -1,
        "duration": 60_000,
        "last-modification": NOW,
    }


def test_a_job_has_flinks_fields_and_penstocks_own(ask, controller):
    controller.savepoint = "/sp/1"
    status, job = ask("GET", JOB)
    assert status == 200
    assert {key: job[key] for key in ("jid", "name", "state", "duration", "maxParallelism")} == {
        "jid": ID, "name": "clicks", "state": "RUNNING", "duration": 60_000, "maxParallelism": 128,
    }  # fmt: skip
    assert [(each["id"], each["name"], each["parallelism"]) for each in job["vertices"]] == [
        ("v1", "Source: clicks", 2),
        ("v2", "Map -> Sink", 3),
    ]
    assert job["vertices"][1]["operators"][0] == {"id": "o2", "uid": "count", "name": "Map"}
    assert job["status-counts"]["RUNNING"] == 2
    source = job["vertices"][0]
    assert (source["status"], source["start-time"], source["end-time"], source["duration"]) == (
        "RUNNING", NOW - 50_000, -1, 50_000,
    )  # fmt: skip
    assert {state: count for state, count in source["tasks"].items() if count} == {"RUNNING": 2}
    assert (job["timestamps"]["RUNNING"], job["timestamps"]["FAILED"]) == (NOW - 55_000, 0)
    assert job["penstock"] == {
        "epoch": 7, "restarts": 1, "checkpoints": f"/chk/{ID}", "savepoint": "/sp/1",
        "failure": None,
    }  # fmt: skip
    assert ask("GET", f"{JOB}/status") == (200, {"status": "RUNNING"})


def test_a_vertex_is_shown_with_its_subtasks(ask, controller):
    status, vertex = ask("GET", f"{JOB}/vertices/v2")
    assert (status, vertex["name"], len(vertex["subtasks"])) == (200, "Map -> Sink", 3)
    shown = vertex["subtasks"][2]
    assert (shown.pop("metrics")["read-records"], shown.pop("other-concurrent-attempts")) == (
        0,
        None,
    )
    assert shown == {
        "subtask": 2,
        "endpoint": "(unassigned)",
        "taskmanager-id": "(unassigned)",
        "start_time": NOW - 50_000,
        "status-duration": {
            "CREATED": -1,
            "SCHEDULED": -1,
            "DEPLOYING": 10_000,
            "INITIALIZING": -1,
            "RUNNING": 40_000,
        },
        "status": "RUNNING",
        "attempt": 1,
        "start-time": NOW - 50_000,
        "end-time": -1,
        "duration": 50_000,
        "timestamps": {"DEPLOYING": NOW - 50_000, "RUNNING": NOW - 40_000},
        "penstock": {"checkpoint": 7, "acknowledged": NOW - 1_000, "failure": None},
    }
    status, refusal = ask("GET", f"{JOB}/vertices/nope")
    assert status == 404
    assert "has no vertex nope" in refusal["errors"][0]


def test_the_latest_checkpoint_and_savepoint_are_told(ask, controller):
    controller.savepoint = "/sp/1"
    controller.statistics.on_trigger(7, {"v1": 1}, NOW - 20)
    controller.statistics.on_ack(7, TaskAck(TaskId("v1", 0), "a", {}, {}, b"local"), NOW - 5)
    controller.statistics.on_complete(7, "/chk/7", NOW)
    controller.statistics.on_trigger(8, {"v1": 1}, NOW)
    _, content = ask("GET", f"{JOB}/checkpoints")
    assert content["counts"] == {
        "restored": 0, "total": 2, "in_progress": 1, "completed": 1, "failed": 0,
    }  # fmt: skip
    assert content["latest"]["completed"]["external_path"] == "/chk/7"
    assert content["latest"]["completed"]["is_savepoint"] is False
    assert content["latest"]["completed"]["tasks"] == {}
    assert content["latest"]["savepoint"]["external_path"] == "/sp/1"
    assert [(each["id"], each["status"]) for each in content["history"]] == [
        (8, "IN_PROGRESS"),
        (7, "COMPLETED"),
    ]
    _, config = ask("GET", f"{JOB}/checkpoints/config")
    assert (config["mode"], config["interval"]) == ("exactly_once", 1000)
    _, details = ask("GET", f"{JOB}/checkpoints/details/7")
    assert details["tasks"]["v1"]["end_to_end_duration"] == 15
    assert "subtasks" not in details["tasks"]["v1"]
    _, subtasks = ask("GET", f"{JOB}/checkpoints/details/7/subtasks/v1")
    assert [each["state_size"] for each in subtasks["subtasks"]] == [5]
    status, refusal = ask("GET", f"{JOB}/checkpoints/details/6")
    assert (status, refusal["errors"][1]) == (404, "hint: the last ones are 8, 7")
    status, refusal = ask("GET", f"{JOB}/checkpoints/details/7/subtasks/v9")
    assert (status, refusal["errors"][1]) == (404, "hint: its vertices are v1")


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
    assert (status, content["errors"][0]) == (400, "mode 'stop' is unknown")


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


def test_a_rescaling_that_fails_is_told(ask, controller):
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
        ("POST", f"{JOB}/savepoints", {"directory": "/d"}, 400, "field 'directory' is unknown"),
        ("POST", f"{JOB}/savepoints", {"target-directory": 1}, 400, "must be a text"),
        ("POST", f"{JOB}/savepoints", {"cancel-job": "yes"}, 400, "must be true or false"),
        ("POST", f"{JOB}/savepoints", {"triggerId": "x"}, 400, "32 hexadecimal digits"),
        ("POST", f"{JOB}/stop", {"drain": 1}, 400, "'drain' must be true or false"),
        ("POST", f"{JOB}/rescale", {}, 400, "says no parallelism"),
        ("POST", f"{JOB}/rescale", {"parallelism": 0}, 400, "whole number from 1 on"),
        ("POST", f"{JOB}/rescale", {"parallelism": True}, 400, "whole number from 1 on"),
        ("POST", f"{JOB}/rescale", {"vertices": [1]}, 400, "must be an object"),
        ("POST", f"{JOB}/rescale", {"vertices": {"Map": "2"}}, 400, "whole number from 1 on"),
        ("POST", f"{JOB}/rescale", {"vertices": {"nope": 2}}, 400, "no vertex 'nope'"),
        ("PUT", f"{JOB}/resource-requirements", {}, 400, "names no vertex"),
        ("PUT", f"{JOB}/resource-requirements", {"v9": {}}, 400, "no vertex 'v9'"),
        ("PUT", f"{JOB}/resource-requirements", {"v1": 3}, 400, "has no parallelism"),
        (
            "PUT",
            f"{JOB}/resource-requirements",
            {"v1": {"parallelism": {"lowerBound": 3, "upperBound": 2}}},
            400,
            "cannot have a parallelism of 3 to 2",
        ),
        (
            "PUT",
            f"{JOB}/resource-requirements",
            {"v1": {"parallelism": {"upperBound": 129}}},
            400,
            "cannot have a parallelism of 1 to 129",
        ),
        ("POST", "/savepoint-disposal", {}, 400, "'savepoint-path' is missing"),
        ("GET", f"/v1/jobs/{'0' * 32}", None, 404, f"job {'0' * 32} is unknown here"),
        ("POST", f"/jobs/{'0' * 32}/savepoints", {}, 404, "is unknown here"),
        ("GET", "/v1/nothing", None, 404, "there is nothing at /v1/nothing"),
        ("GET", "/v2/jobs", None, 404, "there is nothing at /v2/jobs"),
        ("DELETE", JOB, None, 405, "only GET, PATCH"),
        ("GET", f"{JOB}/stop", None, 405, "GET is not possible"),
        ("BREW", JOB, None, 405, "BREW is not possible"),
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


def test_a_wrong_method_is_told_the_right_ones(ask, controller):
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
def test_what_the_controller_refuses_is_told_at_once(
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
    assert (status, disposed.result(10)) == (202, "/sp/1")
    path = f"/v1/savepoint-disposal/{answer['request-id']}"
    while (content := ask("GET", path)[1])["status"]["id"] == "IN_PROGRESS":
        pass
    assert content == {"status": {"id": "COMPLETED"}, "operation": {}}


def test_the_newest_job_is_listed_first_and_the_last_ended_ones_are_kept(
    ask, services, make_controller
):
    controllers = [
        make_controller(job_id=f"{number:032x}", status=JobStatus.FINISHED)
        for number in range(ENDED_JOBS + 2)
    ]
    for controller in controllers:
        services.jobs.publish(controller)
    services.jobs.withdraw(controllers[-1])
    services.jobs.publish(make_controller(job_id="f" * 32))
    _, content = ask("GET", "/jobs")
    ids = [job["id"] for job in content["jobs"]]
    assert ids == ["f" * 32, *(f"{number:032x}" for number in range(ENDED_JOBS + 1, 1, -1))]


def test_what_an_ended_job_used_is_let_go_of(services, make_controller):
    import gc
    import weakref

    controller = make_controller(status=JobStatus.FINISHED)
    services.jobs.publish(controller)
    services.jobs.withdraw(controller)
    job_id, gone = str(controller.job_id), weakref.ref(controller)
    del controller
    gc.collect()
    assert gone() is None
    assert services.jobs.describe(job_id)["status"] == "FINISHED"


def test_a_job_that_goes_on_under_its_id_takes_the_place_of_the_ended_one(
    ask, services, controller, make_controller
):
    controller.status = JobStatus.CANCELED
    services.jobs.publish(make_controller(job_id=ID))
    services.jobs.withdraw(controller)
    assert ask("GET", "/jobs") == (200, {"jobs": [{"id": ID, "status": "RUNNING"}]})


def reported(busy, back_pressured, **more):
    return {
        "busyTimeMsPerSecond": busy,
        "backPressuredTimeMsPerSecond": back_pressured,
        "idleTimeMsPerSecond": 1000 - busy - back_pressured,
        **more,
    }


@pytest.fixture
def pipelined(controller):
    controller.vertices[0]["reports"] = [
        reported(300, 600, numRecordsIn=10, currentInputWatermark=7),
        reported(100, 0, numRecordsIn=20, currentInputWatermark=8),
    ]
    return controller


def test_the_back_pressure_of_a_vertex_has_flinks_shape(ask, pipelined):
    status, content = ask("GET", f"{JOB}/vertices/v1/backpressure")
    assert status == 200
    assert (content["status"], content["backpressureLevel"], content["end-timestamp"]) == (
        "ok",
        "high",
        NOW,
    )
    assert content["subtasks"][1] == {
        "subtask": 1,
        "attempt-number": 1,
        "backpressureLevel": "ok",
        "backpressure-level": "ok",
        "ratio": 0.0,
        "idleRatio": 0.9,
        "busyRatio": 0.1,
    }


def test_a_vertex_that_runs_in_epochs_has_no_back_pressure_to_show(ask, controller):
    assert ask("GET", f"{JOB}/vertices/v1/backpressure") == (200, {"status": "deprecated"})
    assert ask("GET", f"{JOB}/vertices/v1/metrics") == (200, [])
    metrics = ask("GET", JOB)[1]["vertices"][0]["metrics"]
    assert (metrics["read-records"], metrics["read-records-complete"]) == (0, False)


def test_metrics_of_a_vertex_are_listed_chosen_and_added_up(ask, pipelined):
    assert ask("GET", f"{JOB}/vertices/v1/watermarks") == (
        200,
        [
            {"id": "0.currentInputWatermark", "value": "7"},
            {"id": "1.currentInputWatermark", "value": "8"},
        ],
    )
    _, known = ask("GET", f"{JOB}/vertices/v1/metrics")
    assert {"id": "1.numRecordsIn"} in known
    chosen = ask("GET", f"{JOB}/vertices/v1/metrics?get=1.numRecordsIn")
    assert chosen == (200, [{"id": "1.numRecordsIn", "value": "20"}])
    both = f"{JOB}/vertices/v1/subtasks/metrics?get=numRecordsIn"
    figures = {"min": 10, "max": 20, "sum": 30, "avg": 15.0, "skew": pytest.approx(33.3, abs=0.1)}
    assert ask("GET", both) == (200, [{"id": "numRecordsIn", **figures}])
    assert ask("GET", f"{both}&agg=sum") == (200, [{"id": "numRecordsIn", "sum": 30}])
    assert ask("GET", f"{both}&agg=median")[0] == 400
    assert ask("GET", f"{both}&agg=sum&subtasks=1-7") == (200, [{"id": "numRecordsIn", "sum": 20}])
    assert ask("GET", f"{both}&subtasks=one")[0] == 400
    one = f"{JOB}/vertices/v1/subtasks/1/metrics"
    assert {"id": "numRecordsIn"} in ask("GET", one)[1]
    assert ask("GET", f"{one}?get=numRecordsIn,nothing") == (
        200,
        [{"id": "numRecordsIn", "value": "20"}],
    )
    assert ask("GET", f"{JOB}/vertices/v1/subtasks/2/metrics")[0] == 404
    assert ask("GET", f"{JOB}/vertices/v1/jm-operator-metrics") == (200, [])


def test_metrics_of_operators_have_the_name_of_the_operator_before_them(ask, pipelined):
    pipelined.vertices[0]["operator_reports"] = [
        {
            "o1": {
                "seen": ("counter", 3),
                "level": ("gauge", "high"),
                "rate": ("meter", {"count": 9, "rate": 1.5}),
                "sizes": ("distribution", {"count": 2, "sum": 5, "min": 1, "max": 4}),
                "topic.a.lag": ("gauge", 7, "topic.lag", (("topic", "a"),)),
            }
        },
        {"o1": {"seen": ("counter", 4)}},
    ]
    prefix = "Source__clicks."
    names = ["seen", "level", "rate", "sizes_min", "sizes_mean", "topic.a.lag"]
    wanted = ",".join(f"0.{prefix}{name}" for name in names)
    _, found = ask("GET", f"{JOB}/vertices/v1/metrics?get={wanted}")
    assert [each["value"] for each in found] == ["3", "high", "1.5", "1", "2.5", "7"]
    both = f"{JOB}/vertices/v1/subtasks/metrics"
    assert ask("GET", f"{both}?get={prefix}seen&agg=sum") == (
        200,
        [{"id": f"{prefix}seen", "sum": 7}],
    )
    _, numbers = ask("GET", both)
    assert {"id": f"{prefix}rate"} in numbers
    assert {"id": f"{prefix}level"} not in numbers  # a text cannot be added up


def test_figures_of_a_job_are_listed_chosen_and_added_up_over_jobs(ask, controller):
    controller.statistics.on_trigger(1, {"v1": 2}, NOW - 100)
    controller.statistics.on_fail(1, "too slow", NOW)
    _, known = ask("GET", f"{JOB}/metrics")
    assert {"id": "lastCheckpointDuration"} in known
    chosen = ask("GET", f"{JOB}/metrics?get=numberOfFailedCheckpoints,lastCheckpointDuration")
    assert chosen == (
        200,
        [
            {"id": "numberOfFailedCheckpoints", "value": "1"},
            {"id": "lastCheckpointDuration", "value": "-1"},
        ],
    )
    every = ask("GET", "/jobs/metrics?get=numberOfFailedCheckpoints&agg=sum")
    assert every == (200, [{"id": "numberOfFailedCheckpoints", "sum": 1}])
    assert ask("GET", "/jobs/metrics?get=numRestarts&jobs=unknown")[0] == 404


def test_latencies_of_a_job_are_told_by_where_from_and_where_to(ask, controller):
    controller.vertices[1]["latencies"] = [{}, {"v1": {"count": 3, "p99": 12.5}}, {}]
    name = "latency.source_id.o1.operator_id.o2.operator_subtask_index.1.latency_p99"
    assert ask("GET", f"{JOB}/metrics?get={name}") == (200, [{"id": name, "value": "12.5"}])


def test_a_pipelined_job_shows_what_its_vertices_have_read_and_how_busy_they_are(ask, pipelined):
    _, job = ask("GET", JOB)
    metrics = job["vertices"][0]["metrics"]
    assert (metrics["read-records"], metrics["read-records-complete"]) == (30, True)
    assert (metrics["busy-ratio"], metrics["backpressured-ratio"]) == (0.2, 0.3)
    _, vertex = ask("GET", f"{JOB}/vertices/v1")
    assert [each["metrics"]["read-records"] for each in vertex["subtasks"]] == [10, 20]


@pytest.fixture
def failed_once(controller):
    controller.more = {
        "settings": {
            "type": "STREAMING", "mode": "pipelined", "parallelism": 3, "restart_strategy": "never",
            "user_config": {"a": "b"}, "slot_sharing_groups": {"v2": "mine"},
        },
        "edges": [{"source": "v1", "target": "v2", "strategy": "HASH", "side_tag": None}],
        "places": {"v2": [{"subtask": 0, "host": "here", "process": 7}, {"subtask": 1, "host": "there", "process": 8}]},
        "accumulators": [{"vertex": "v2", "operator": "Map", "name": "seen", "type": "counter", "value": "3"}],
        "exceptions": {
            "truncated": False,
            "entries": [
                {"timestamp": NOW, "name": "ValueError", "stacktrace": "two", "vertex": "v2", "subtask": 1, "attempt": 0,
                 "task": "Map (2/3)", "tasks": None},
                {"timestamp": NOW - 1, "name": "OSError", "stacktrace": "one", "vertex": None, "subtask": None,
                 "attempt": None, "task": None, "tasks": 2},
            ],
        },
    }  # fmt: skip
    return controller


def test_a_plan_has_the_vertices_and_the_ways_between_them(ask, failed_once):
    _, content = ask("GET", f"{JOB}/plan")
    first, second = content["plan"]["nodes"]
    assert (first["id"], first["inputs"], first["description"]) == ("v1", [], "Source: clicks<br/>")
    assert second["description"] == "Map<br/>+- Sink: Print<br/>"
    assert second["inputs"] == [
        {"num": 0, "id": "v1", "ship_strategy": "HASH", "exchange": "pipelined_bounded"}
    ]
    assert ask("GET", JOB)[1]["plan"] == content["plan"]


def test_the_settings_of_a_job_are_told(ask, failed_once):
    _, content = ask("GET", f"{JOB}/config")
    config = content["execution-config"]
    assert (config["job-parallelism"], config["restart-strategy"]) == (3, "never")
    assert config["user-config"] == {"a": "b"}
    groups = [vertex["slotSharingGroupId"] for vertex in ask("GET", JOB)[1]["vertices"]]
    assert groups == ["default", "mine"]


def test_what_a_job_failed_with_is_told_newest_first(ask, failed_once):
    _, content = ask("GET", f"{JOB}/exceptions")
    entries = content["exceptionHistory"]["entries"]
    assert [(each["exceptionName"], each["taskName"]) for each in entries] == [
        ("ValueError", "Map (2/3)"),
        ("OSError", None),
    ]
    assert (content["root-exception"], content["timestamp"]) == ("two", NOW)
    _, content = ask("GET", f"{JOB}/exceptions?maxExceptions=1")
    assert len(content["exceptionHistory"]["entries"]) == 1
    assert content["exceptionHistory"]["truncated"] is True
    assert ask("GET", f"{JOB}/exceptions?maxExceptions=some")[0] == 400
    controller_without = ask("GET", f"{JOB}/exceptions?maxExceptions=0")[1]
    assert controller_without["root-exception"] is None


def test_what_functions_have_counted_is_told_of_the_job_and_of_the_vertex(ask, failed_once):
    seen = [{"name": "Map.seen", "type": "counter", "value": "3"}]
    assert ask("GET", f"{JOB}/accumulators")[1]["user-task-accumulators"] == seen
    assert ask("GET", f"{JOB}/vertices/v2/accumulators")[1]["user-accumulators"] == seen
    assert ask("GET", f"{JOB}/vertices/v1/accumulators")[1]["user-accumulators"] == []


def test_subtasks_are_shown_where_they_are(ask, failed_once, monkeypatch):
    monkeypatch.setattr(taskmanagers, "place_of", lambda slot, known: f"{slot.host}-{slot.process}")
    _, vertex = ask("GET", f"{JOB}/vertices/v2")
    assert [(each["endpoint"], each["taskmanager-id"]) for each in vertex["subtasks"]] == [
        ("here", "here-7"),
        ("there", "there-8"),
        ("(unassigned)", "(unassigned)"),
    ]
    _, content = ask("GET", f"{JOB}/vertices/v2/taskmanagers")
    assert [
        (each["taskmanager-id"], each["status-counts"]["RUNNING"], each["status"])
        for each in content["taskmanagers"]
    ] == [("here-7", 1, "RUNNING"), ("there-8", 1, "RUNNING"), ("(unassigned)", 1, "RUNNING")]


def test_attempts_before_the_current_one_are_shown(ask, controller):
    subtask = controller.vertices[1]["subtasks"][2]
    subtask["history"] = [
        {
            **subtask["current"],
            "attempt": 0,
            "state": "FAILED",
            "timestamps": {"CREATED": 10, "DEPLOYING": 20, "RUNNING": 30, "FAILED": 70},
            "failure": "boom",
        }
    ]
    path = f"{JOB}/vertices/v2/subtasks/2"
    assert ask("GET", path)[1]["attempt"] == 1
    assert ask("GET", f"{path}/attempts/1")[1]["status"] == "RUNNING"
    _, before = ask("GET", f"{path}/attempts/0")
    assert (before["status"], before["duration"], before["penstock"]["failure"]) == (
        "FAILED", 50, "boom",
    )  # fmt: skip
    assert before["status-duration"] == {
        "CREATED": 10, "SCHEDULED": -1, "DEPLOYING": 10, "INITIALIZING": -1, "RUNNING": 40,
    }  # fmt: skip
    status, refusal = ask("GET", f"{path}/attempts/5")
    assert (status, refusal["errors"][1]) == (404, "hint: its last ones are 0, 1")
    status, refusal = ask("GET", f"{JOB}/vertices/v2/subtasks/3")
    assert (status, refusal["errors"][1]) == (404, "hint: its subtasks are 0 to 2")
    _, times = ask("GET", f"{JOB}/vertices/v2/subtasktimes")
    assert times["subtasks"][2]["timestamps"]["RUNNING"] == NOW - 40_000
    assert times["subtasks"][2]["timestamps"]["FAILED"] == 0


def test_the_cluster_counts_its_jobs(ask, controller, services, make_controller):
    for number, status in enumerate((JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED)):
        services.jobs.publish(make_controller(job_id=f"{number}" * 32, status=status))
    _, content = ask("GET", "/overview")
    assert [content[f"jobs-{each}"] for each in ("running", "finished", "failed", "cancelled")] == [
        1, 1, 1, 1,
    ]  # fmt: skip
    assert content["flink-version"].startswith("2.")


def test_how_a_job_ended_is_told(ask, controller):
    path = f"{JOB}/execution-result"
    assert ask("GET", path) == (200, {"status": {"id": "IN_PROGRESS"}})
    controller.status = JobStatus.FINISHED
    _, content = ask("GET", path)
    assert content["job-execution-result"]["application-status"] == "SUCCEEDED"
    controller.status = JobStatus.FAILED
    _, content = ask("GET", path)
    assert content["job-execution-result"]["application-status"] == "FAILED"
    assert "failure-cause" in content["job-execution-result"]


def test_a_job_is_rescaled_in_the_words_of_flinks_old_route(ask, controller):
    status, answer = ask("PATCH", f"{JOB}/rescaling?parallelism=4")
    assert (status, controller.calls) == (202, [("rescale", 4)])
    _, content = ask("GET", f"{JOB}/rescaling/{answer['request-id']}")
    assert content["operation"]["parallelism"]["Map -> Sink"] == 4
    for wrong in ("", "?parallelism=0", "?parallelism=x", "?parallelism=-1"):
        assert ask("PATCH", f"{JOB}/rescaling{wrong}")[0] == 400
