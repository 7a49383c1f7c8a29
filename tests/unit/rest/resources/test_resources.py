"""The REST API over real HTTP: what it returns about jobs, vertices and the cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.common.job_status import JobStatus
from penstock.graph.task_id import TaskId
from penstock.jobmanager.checkpointing.checkpoint_statistics import CheckpointSnapshot
from penstock.jobmanager.execution.execution_state import ExecutionState
from penstock.jobmanager.execution.failure_history import FailureEntry, FailureHistory
from penstock.jobmanager.job_view import (
    AccumulatorView,
    EdgeView,
    Lazy,
    SettingsView,
    SubtaskPlace,
)
from penstock.rest.services import taskmanagers
from penstock.rest.services.published_jobs import ENDED_JOBS
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
        "checkpoint_id": 7, "restarts": 1, "checkpoints": f"/chk/{ID}", "savepoint": "/sp/1",
        "failure": None, "dropped": [],
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
    assert "unknown vertex nope" in refusal["errors"][0]


def test_the_latest_checkpoint_and_savepoint_are_returned(ask, controller):
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
    assert (status, refusal["errors"][1]) == (404, "hint: the last checkpoints are 8, 7")
    status, refusal = ask("GET", f"{JOB}/checkpoints/details/7/subtasks/v9")
    assert (status, refusal["errors"][1]) == (404, "hint: its vertices are v1")


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
    assert services.jobs.view(job_id).status is JobStatus.FINISHED


def test_a_job_that_goes_on_under_its_id_takes_the_place_of_the_ended_one(
    ask, services, controller, make_controller
):
    controller.status = JobStatus.CANCELED
    services.jobs.publish(make_controller(job_id=ID))
    services.jobs.withdraw(controller)
    assert ask("GET", "/jobs") == (200, {"jobs": [{"id": ID, "status": "RUNNING"}]})


@pytest.fixture
def failed_once(controller):
    controller.change_vertex(1, slot_sharing_group="mine")
    entries = (
        FailureEntry(NOW - 1, "OSError", "one", tasks=2),
        FailureEntry(NOW, "ValueError", "two", "v2", 1, 0, "Map (2/3)"),
    )
    settings = SettingsView("STREAMING", "pipelined", 3, "never", {"a": "b"})
    places = {"v2": [SubtaskPlace(0, "here", 7), SubtaskPlace(1, "there", 8)]}
    controller.more = {
        "settings": Lazy.of(settings),
        "edges": Lazy.of((EdgeView("v1", "v2", "HASH"),)),
        "places": Lazy.of(places),
        "accumulators": Lazy.of((AccumulatorView("v2", "Map", "seen", "counter", "3"),)),
        "failures": FailureHistory(entries, len(entries)),
    }
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


def test_the_settings_of_a_job_are_returned(ask, failed_once):
    _, content = ask("GET", f"{JOB}/config")
    config = content["execution-config"]
    assert (config["job-parallelism"], config["restart-strategy"]) == (3, "never")
    assert config["user-config"] == {"a": "b"}
    groups = [vertex["slotSharingGroupId"] for vertex in ask("GET", JOB)[1]["vertices"]]
    assert groups == ["default", "mine"]


def test_the_failures_of_a_job_are_returned_newest_first(ask, failed_once):
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


def test_counters_of_functions_are_returned_for_the_job_and_for_the_vertex(ask, failed_once):
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
    *others, subtask = controller.vertices[1].subtasks
    times = (("CREATED", 10), ("DEPLOYING", 20), ("RUNNING", 30), ("FAILED", 70))
    before = replace(
        subtask.current,
        attempt=0,
        state=ExecutionState.FAILED,
        timestamps=tuple((ExecutionState[name], time) for name, time in times),
        failure="boom",
    )
    controller.change_vertex(1, subtasks=(*others, replace(subtask, history=(before,))))
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
    assert (status, refusal["errors"][1]) == (404, "hint: its last attempts are 0, 1")
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


def test_the_result_of_a_job_is_returned(ask, controller):
    path = f"{JOB}/execution-result"
    assert ask("GET", path) == (200, {"status": {"id": "IN_PROGRESS"}})
    controller.status = JobStatus.FINISHED
    _, content = ask("GET", path)
    assert content["job-execution-result"]["application-status"] == "SUCCEEDED"
    controller.status = JobStatus.FAILED
    _, content = ask("GET", path)
    assert content["job-execution-result"]["application-status"] == "FAILED"
    assert "failure-cause" in content["job-execution-result"]


@pytest.mark.parametrize(
    "path", [f"{JOB}/status", "/v1/jobs", f"{JOB}/config", f"{JOB}/exceptions"]
)
def test_what_a_request_does_not_return_is_not_collected(ask, controller, path):
    collected = []

    def part(name, value):
        return Lazy(lambda: collected.append(name) or value)

    controller.more = {
        "vertices": part("vertices", ()),
        "checkpoints": part("checkpoints", CheckpointSnapshot()),
        "dropped": part("dropped", ()),
        "accumulators": part("accumulators", ()),
    }
    assert ask("GET", path)[0] == 200
    assert collected == []
    assert ask("GET", f"{JOB}/plan")[0] == 200
    assert collected == ["vertices"]
