"""Whatever is asked of a job, and wherever it fails meanwhile: its output stays the same, and everyone is answered."""

from __future__ import annotations

import tempfile
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import JobStatus
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.savepoint.reader import is_savepoint
from penstock.testing import MiniCluster
from penstock.testing.faults import watched_steps
from tests.builders.counting_job import environment, totals
from tests.builders.examples import examples
from tests.builders.steps import before_each_epoch

LAST = 7  # the epoch before which the job is told to stop

STEPS = ["run_pipe", "write_manifest", "commit_sink", "delete_checkpoint"]
MOMENTS = [f"{side} {step}" for step in STEPS for side in ("before", "after")]
REQUESTS = st.one_of(
    st.tuples(st.just("rescale"), st.sampled_from([1, 2, 3, 5, 129])),
    st.tuples(st.just("rescale"), st.sampled_from([{"totals": 2}, {"totals": 4}, {"nobody": 1}])),
    st.tuples(st.just("savepoint"), st.sampled_from(["good", "bad"])),
    st.tuples(st.just("stop"), st.just("bad")),
    st.tuples(st.just("drain"), st.just("bad")),
    st.tuples(st.just("fail"), st.sampled_from(MOMENTS)),
)
SCHEDULES = st.dictionaries(st.integers(1, LAST - 1), st.lists(REQUESTS, max_size=3), max_size=4)


class Disturbance:
    """Carries out what is planned for each epoch, before it runs; keeps the answers."""

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

    def before(self, master: JobMaster, checkpoint_id: int) -> None:
        for kind, what in self.schedule.pop(checkpoint_id, []):
            if kind == "rescale":
                self.others.append(master.request_rescale(what))
            elif kind == "fail":
                self.failures.append(what)
            else:
                how = {"stops": kind in {"stop", "drain"}, "drains": kind == "drain"}
                answer = master.request_savepoint(self.places[what], **how)
                (self.savepoints if what == "good" else self.others).append(answer)
        if checkpoint_id >= LAST and not self.stops:
            self.stops = True
            self.savepoints.append(
                master.request_savepoint(self.places["good"], stops=True, drains=True)
            )

    def hook(self, moment: str, _checkpoint_id: int) -> None:
        if moment in self.failures:
            self.failures.remove(moment)
            self.failed += 1
            raise RuntimeError(f"not {moment}")


def run(
    schedule: dict[int, list[tuple[str, Any]]], directory: Path
) -> tuple[Counter[Any], JobMaster, Disturbance]:
    disturbance = Disturbance(schedule, directory)
    env = environment(
        2,
        restart_strategy__type="fixed-delay",
        restart_strategy__fixed_delay__attempts="1000",
        restart_strategy__fixed_delay__delay="0 s",
        penstock__state__inline_threshold="0 b",
    )
    found: Counter[Any] = Counter()
    with (
        MiniCluster() as cluster,
        before_each_epoch(
            lambda checkpoint_id: disturbance.before(cluster.masters[0], checkpoint_id)
        ),
        watched_steps(disturbance.hook),
    ):
        for each in totals(env).execute_and_collect():
            found[each] += 1
    return found, cluster.masters[0], disturbance


@settings(max_examples=examples(15), deadline=None)
@given(SCHEDULES)
def test_the_output_is_that_of_an_undisturbed_run_and_every_request_is_answered(
    schedule: dict[int, list[tuple[str, Any]]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        found, master, disturbance = run(schedule, Path(directory))
        assert len(found) >= LAST * 10
        assert found == Counter(expected(len(found)))
        assert master.status is JobStatus.FINISHED
        assert master.restarts == disturbance.failed
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
