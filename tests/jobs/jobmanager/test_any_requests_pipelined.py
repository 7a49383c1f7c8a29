"""Whatever is asked of a pipelined job, and wherever it fails meanwhile: its output stays the same, and everyone is answered."""

from __future__ import annotations

import tempfile
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import JobStatus
from penstock.datastream import MapFunction
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.savepoint.reader import is_savepoint
from penstock.testing import MiniCluster
from penstock.testing.faults import watched_steps
from tests.builders.counting_job import Slowly, environment, totals
from tests.builders.examples import examples
from tests.builders.steps import before_each_trigger

LAST = 7  # the checkpoint before which the job is told to stop

STEPS = ["trigger", "write_manifest", "commit_sink", "delete_checkpoint"]
MOMENTS = [f"{side} {step}" for step in STEPS for side in ("before", "after")]
REQUESTS = st.one_of(
    st.tuples(st.just("rescale"), st.sampled_from([1, 2, 3, 129])),
    st.tuples(st.just("rescale"), st.sampled_from([{"totals": 2}, {"totals": 4}, {"nobody": 1}])),
    st.tuples(st.just("savepoint"), st.sampled_from(["good", "bad"])),
    st.tuples(st.just("stop"), st.just("bad")),
    st.tuples(st.just("drain"), st.just("bad")),
    st.tuples(st.just("fail"), st.sampled_from(MOMENTS)),
    st.tuples(st.just("task"), st.just("fails")),
)
SCHEDULES = st.dictionaries(st.integers(1, LAST - 1), st.lists(REQUESTS, max_size=3), max_size=4)

TO_FAIL: list[str] = []  # told to the tasks, which are threads of this process
FAILED: list[str] = []


class FailsWhenTold(MapFunction):
    def map(self, value: Any) -> Any:
        if TO_FAIL:
            FAILED.append(TO_FAIL.pop())
            raise ValueError("told to fail")
        return value


class Disturbance:
    """Carries out what is planned for each checkpoint, before it is triggered; keeps the answers."""

    def __init__(self, schedule: dict[int, list[tuple[str, Any]]], directory: Path) -> None:
        self.schedule = {
            checkpoint_id: list(requests) for checkpoint_id, requests in schedule.items()
        }
        self.places = {"good": str(directory / "savepoints"), "bad": str(directory / "file")}
        (directory / "file").touch()
        self.savepoints: list[Future[str]] = []
        self.others: list[Future[Any]] = []
        self.failures: list[str] = []  # moments that come once
        self.failed = 0
        self.stops = False
        TO_FAIL.clear()
        FAILED.clear()

    def before(self, master: JobMaster, number: int) -> None:
        for kind, what in self.schedule.pop(number, []):
            if kind == "rescale":
                self.others.append(master.request_rescale(what))
            elif kind == "fail":
                self.failures.append(what)
            elif kind == "task":
                TO_FAIL.append("a task")
            else:
                how = {"stops": kind in {"stop", "drain"}, "drains": kind == "drain"}
                answer = master.request_savepoint(self.places[what], **how)
                (self.savepoints if what == "good" else self.others).append(answer)
        if number >= LAST and not self.stops:
            self.stops = True
            self.savepoints.append(
                master.request_savepoint(self.places["good"], stops=True, drains=True)
            )

    def hook(self, moment: str, _number: int) -> None:
        if moment in self.failures:
            self.failures.remove(moment)
            self.failed += 1
            raise RuntimeError(f"not {moment}")


def run(
    schedule: dict[int, list[tuple[str, Any]]], directory: Path, **options: str
) -> tuple[Counter[Any], JobMaster, Disturbance]:
    disturbance = Disturbance(schedule, directory)
    env = environment(
        2,
        restart_strategy__type="fixed-delay",
        restart_strategy__fixed_delay__attempts="1000",
        restart_strategy__fixed_delay__delay="0 s",
        penstock__state__inline_threshold="0 b",
        **{"execution__checkpointing__interval": "10 ms", **options},
    )
    found: Counter[Any] = Counter()
    with (
        MiniCluster(mode="pipelined") as cluster,
        before_each_trigger(lambda number: disturbance.before(cluster.masters[0], number)),
        watched_steps(disturbance.hook),
    ):
        stream = totals(env, Slowly()).map(FailsWhenTold())
        for each in stream.execute_and_collect():
            found[each] += 1
    return found, cluster.masters[0], disturbance


def check(schedule: dict[int, list[tuple[str, Any]]], **options: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        found, master, disturbance = run(schedule, Path(directory), **options)
        count = sum(found.values())
        assert found == Counter(expected(count))
        assert count >= 10
        assert master.status is JobStatus.FINISHED
        # A task may fail while the job is being restarted anyway.
        assert disturbance.failed <= master.restarts <= disturbance.failed + len(FAILED)
        assert all(answer.done() for answer in disturbance.others)
        assert all(is_savepoint(answer.result(0)) for answer in disturbance.savepoints)


def expected(count: int) -> list[tuple[int, int]]:
    """Return what the job puts out for the first numbers."""
    sums: Counter[int] = Counter()
    out = []
    for number in range(count):
        sums[number % 5] += number
        out.append((number % 5, sums[number % 5]))
    return out


@settings(max_examples=examples(15), deadline=None)
@given(
    SCHEDULES,
    st.sampled_from(
        [
            {"execution__checkpointing__max_concurrent_checkpoints": "3"},
            {"execution__checkpointing__min_pause": "5 ms"},
            {"execution__checkpointing__unaligned__enabled": "true"},
        ]
    ),
)
def test_the_output_is_that_of_an_undisturbed_run_and_every_request_is_answered(
    schedule: dict[int, list[tuple[str, Any]]], options: dict[str, str]
) -> None:
    check(schedule, **options)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_fault_at_each_step_is_survived(moment: str) -> None:
    check({2: [("fail", moment)], 4: [("fail", moment)]})


def test_a_drained_job_whose_last_commit_fails_has_its_savepoint_all_the_same() -> None:
    check({LAST: [("fail", "after write_manifest"), ("fail", "before commit_sink")]})


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_rescaling_savepoints_and_failures_one_after_another(backend: str) -> None:
    schedule: dict[int, list[tuple[str, Any]]] = {
        1: [("rescale", 3), ("savepoint", "good")],
        2: [("task", "fails")],
        3: [("savepoint", "good"), ("rescale", 1)],
        4: [("fail", "after write_manifest"), ("rescale", {"totals": 4})],
        5: [("stop", "bad"), ("task", "fails")],
    }
    check(schedule, state__backend__type=backend)
