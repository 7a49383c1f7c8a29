"""Jobs that go on with another plan."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import (
    ArgumentError,
    JobCancelledError,
)
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.jobmanager.rescaling.autoscaler import Autoscaler
from penstock.jobmanager.rescaling.replanning import fitted_to
from penstock.jobmanager.running import thread_cluster
from penstock.testing import MiniCluster
from tests.builders.counting_job import environment, job_of, totals
from tests.builders.steps import before_each_epoch


def test_state_fixes_the_key_groups_of_operators_that_set_none(tmp_path: Path) -> None:
    directory = f"file://{tmp_path}"
    manifest = run_until(6, 2, execution__checkpointing__dir=directory)[1].manifest
    assert manifest is not None
    grown = job_of(100)
    assert {v.max_parallelism for v in grown.plan.vertices if v.parallelism == 100} == {256}
    fitted = fitted_to(grown, manifest)
    assert next(v for v in fitted.plan.vertices if v.is_keyed).max_parallelism == 128


def run_until(
    last: int, parallelism: int, act: Any = None, **options: str
) -> tuple[Any, JobMaster]:
    """Run the totals until an epoch is completed; `act` is called with the job's master before each one."""
    with MiniCluster() as cluster:

        def between(checkpoint_id: int) -> None:
            master = cluster.masters[0]
            if act is not None:
                act(master, checkpoint_id)
            if checkpoint_id == last:
                master.cancel(graceful=True)

        found: Counter[tuple[int, int]] = Counter()
        with before_each_epoch(between), suppress(JobCancelledError):
            for each in totals(environment(parallelism, **options)).execute_and_collect():
                found[each] += 1
        return found, cluster.masters[0]


def test_the_next_epoch_runs_with_the_new_parallelism_and_nothing_is_processed_twice() -> None:
    seen: dict[int, int] = {}
    answers: list[Future[dict[str, int]]] = []

    def act(master: JobMaster, checkpoint_id: int) -> None:
        seen[checkpoint_id] = max(vertex.parallelism for vertex in master.job.plan.vertices)
        if checkpoint_id == 3:
            answers.append(master.request_rescale(4))

    found, master = run_until(6, 2, act)
    expected, _ = run_until(6, 2)
    assert found == expected
    assert seen == {1: 2, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4}
    assert max(answers[0].result(0).values()) == 4
    assert master.restarts == 0


def test_a_refused_parallelism_leaves_the_job_as_it_is() -> None:
    answers: list[Future[dict[str, int]]] = []

    def act(master: JobMaster, checkpoint_id: int) -> None:
        if checkpoint_id == 2:
            answers.append(master.request_rescale({"nobody": 4}))

    found, _ = run_until(5, 2, act)
    assert isinstance(answers[0].exception(0), ArgumentError)
    assert found == run_until(5, 2)[0]


def test_a_job_that_is_over_answers_with_an_error() -> None:
    _, master = run_until(2, 1)
    assert isinstance(master.request_rescale(2).exception(0), JobCancelledError)


AUTOSCALED = {
    "job__autoscaler__enabled": "true",
    "job__autoscaler__vertex__min_parallelism": "2",
    "job__autoscaler__vertex__max_parallelism": "3",
    "job__autoscaler__stabilization__interval": "0 ms",
    "job__autoscaler__metrics__window": "1 s",
    "job__autoscaler__catch_up__duration": "1 ms",
}


def test_a_job_with_a_backlog_is_scaled_up_by_itself_as_far_as_it_may() -> None:
    seen: dict[int, int] = {}

    def act(master: JobMaster, checkpoint_id: int) -> None:
        seen[checkpoint_id] = max(vertex.parallelism for vertex in master.job.plan.vertices)

    found, master = run_until(12, 1, act, **AUTOSCALED)
    assert found == run_until(12, 1)[0]
    assert (seen[1], seen[2], seen[12]) == (1, 2, 3)  # at once into the bounds, then by the backlog
    assert master.restarts == 0


def test_no_more_subtasks_than_cores_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_cluster.ThreadCluster, "cores", lambda _: 2)
    _, master = run_until(12, 1, **AUTOSCALED)
    assert master.job.program.settings.parallelism == 2


def test_a_change_of_one_vertex_restarts_the_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resets: list[int] = []
    monkeypatch.setattr(Autoscaler, "reset", lambda _: resets.append(1))

    def act(master: JobMaster, checkpoint_id: int) -> None:
        if checkpoint_id == 2:
            master.request_rescale({"totals": 2})
        if checkpoint_id == 3:
            master.request_rescale(3)  # that it sees by itself

    run_until(5, 1, act)
    assert resets == [1]


def test_decisions_may_be_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    _, master = run_until(12, 1, **AUTOSCALED, job__autoscaler__scaling__enabled="false")
    assert max(vertex.parallelism for vertex in master.job.plan.vertices) == 1
    assert "would be rescaled: scale up from 1 to" in caplog.text
