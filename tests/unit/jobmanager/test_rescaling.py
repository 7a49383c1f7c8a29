"""Other plans of a running program."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import (
    ArgumentError,
    ArgumentTypeError,
    InvalidProgramError,
    JobCancelledError,
)
from penstock.graph.settings import GraphSettings
from penstock.jobmanager.autoscaler import Autoscaler
from penstock.jobmanager.job import Job
from penstock.jobmanager.job_master import JobMaster
from penstock.jobmanager.launcher import create_job
from penstock.jobmanager.replanning import fitted_to, rescaled
from penstock.jobmanager.scaling import highest_parallelism
from penstock.testing import mini_cluster
from penstock.testing.mini_cluster import MiniCluster
from tests.builders.counting_job import before_each_epoch, environment, totals


def job_of(parallelism: int = 2, **settings: Any) -> Job:
    """A source, a keyed operator that the program leaves to the default, one with a parallelism of its own, and a sink."""
    env = environment(parallelism)
    stream = totals(env)
    stream.key_by(str).map(lambda pair: pair).name("own").uid("own").set_parallelism(3).print()
    stream.print()
    return create_job(
        env._transformations,
        GraphSettings(parallelism=parallelism, **settings),
        env.get_configuration(),
        "job",
    )


def parallelism_of(job: Job) -> dict[str, int]:
    return {
        operator.uid: vertex.parallelism
        for vertex in job.plan.vertices
        for operator in vertex.operators
        if operator.uid is not None
    }


def test_a_number_is_for_the_operators_that_set_none_themselves() -> None:
    job = rescaled(job_of(2), 5)
    assert parallelism_of(job) == {"numbers": 5, "totals": 5, "own": 3}


def test_a_name_is_for_one_vertex_whatever_the_program_says() -> None:
    job = rescaled(job_of(2), {"own": 4})
    assert parallelism_of(job) == {"numbers": 2, "totals": 2, "own": 4}


def test_what_was_rescaled_by_name_stays_so_when_the_rest_is_rescaled() -> None:
    job = rescaled(rescaled(job_of(2), {"totals": 4}), 7)
    assert parallelism_of(job) == {"numbers": 7, "totals": 4, "own": 3}


def test_operators_keep_their_ids_and_their_key_groups() -> None:
    before, after = job_of(2), rescaled(job_of(2), 100)

    def ids(job: Job) -> set[tuple[str, int]]:
        return {
            (operator.operator_id, vertex.max_parallelism)
            for vertex in job.plan.vertices
            for operator in vertex.operators
        }

    assert ids(before) == ids(after)  # 100 subtasks would have 256 key groups in a new program


@pytest.mark.parametrize(
    ("parallelism", "error", "message"),
    [
        pytest.param(0, ArgumentError, "between 1 and 32768", id="too-small"),
        pytest.param("4", ArgumentTypeError, "whole number", id="no-number"),
        pytest.param({}, ArgumentError, "no operator is named", id="nobody"),
        pytest.param({"totls": 2}, ArgumentError, "no operator 'totls'", id="misspelt"),
        pytest.param({"totals": 129}, InvalidProgramError, "max parallelism", id="key-groups"),
        pytest.param(129, InvalidProgramError, "max parallelism", id="key-groups-of-all"),
    ],
)
def test_a_parallelism_that_cannot_be_is_refused(
    parallelism: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        rescaled(job_of(2), parallelism)


def test_an_operator_that_runs_as_one_subtask_is_not_rescaled() -> None:
    env = environment(2)
    env.from_collection([1, 2]).uid("list").map(lambda n: n).print()
    job = create_job(
        env._transformations, GraphSettings(parallelism=2), env.get_configuration(), ""
    )
    assert parallelism_of(rescaled(job, 3)) == {"list": 1}
    with pytest.raises(InvalidProgramError, match="runs as one subtask"):
        rescaled(job, {"list": 2})


@pytest.mark.parametrize(
    ("own", "limit", "expected"),
    [
        pytest.param(3, None, 128, id="key-groups"),
        pytest.param(2, 2, 128, id="an-operator-that-only-happens-to-have-the-default"),
        pytest.param(None, 40, 40, id="the-lowest-of-those-that-follow"),
        pytest.param(None, 2, 2, id="not-one-more"),
    ],
)
def test_the_autoscaler_knows_how_far_it_may_go(
    own: int | None, limit: int | None, expected: int
) -> None:
    env = environment(2)
    mapped = totals(env).key_by(str).map(lambda pair: pair).uid("own")
    if own is not None:
        mapped.set_parallelism(own)
    if limit is not None:
        mapped.set_max_parallelism(limit)
    mapped.print()
    job = create_job(
        env._transformations, GraphSettings(parallelism=2), env.get_configuration(), ""
    )
    assert highest_parallelism(job) == expected


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

        def between(epoch: int) -> None:
            master = cluster.masters[0]
            if act is not None:
                act(master, epoch)
            if epoch == last:
                master.cancel(graceful=True)

        found: Counter[tuple[int, int]] = Counter()
        with before_each_epoch(between), suppress(JobCancelledError):
            for each in totals(environment(parallelism, **options)).execute_and_collect():
                found[each] += 1
        return found, cluster.masters[0]


def test_the_next_epoch_runs_with_the_new_parallelism_and_nothing_is_processed_twice() -> None:
    seen: dict[int, int] = {}
    answers: list[Future[dict[str, int]]] = []

    def act(master: JobMaster, epoch: int) -> None:
        seen[epoch] = max(vertex.parallelism for vertex in master.job.plan.vertices)
        if epoch == 3:
            answers.append(master.request_rescale(4))

    found, master = run_until(6, 2, act)
    expected, _ = run_until(6, 2)
    assert found == expected
    assert seen == {1: 2, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4}
    assert max(answers[0].result(0).values()) == 4
    assert master.restarts == 0


def test_a_refused_parallelism_leaves_the_job_as_it_is() -> None:
    answers: list[Future[dict[str, int]]] = []

    def act(master: JobMaster, epoch: int) -> None:
        if epoch == 2:
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

    def act(master: JobMaster, epoch: int) -> None:
        seen[epoch] = max(vertex.parallelism for vertex in master.job.plan.vertices)

    found, master = run_until(12, 1, act, **AUTOSCALED)
    assert found == run_until(12, 1)[0]
    assert (seen[1], seen[2], seen[12]) == (1, 2, 3)  # at once into the bounds, then by the backlog
    assert master.restarts == 0


def test_no_more_subtasks_than_cores_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mini_cluster._LocalPipe, "cores", lambda _: 2)
    _, master = run_until(12, 1, **AUTOSCALED)
    assert master.job.program.settings.parallelism == 2


def test_a_change_of_one_vertex_begins_the_measuring_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resets: list[int] = []
    monkeypatch.setattr(Autoscaler, "reset", lambda _: resets.append(1))

    def act(master: JobMaster, epoch: int) -> None:
        if epoch == 2:
            master.request_rescale({"totals": 2})
        if epoch == 3:
            master.request_rescale(3)  # that it sees by itself

    run_until(5, 1, act)
    assert resets == [1]


def test_decisions_may_be_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    _, master = run_until(12, 1, **AUTOSCALED, job__autoscaler__scaling__enabled="false")
    assert max(vertex.parallelism for vertex in master.job.plan.vertices) == 1
    assert "would be rescaled: scale up from 1 to" in caplog.text
