"""Other plans of a running program."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import (
    ArgumentError,
    ArgumentTypeError,
    InvalidProgramError,
)
from penstock.graph.settings import GraphSettings
from penstock.jobmanager.job import Job
from penstock.jobmanager.job_creation import create_job
from penstock.jobmanager.rescaling.replanning import rescaled
from penstock.jobmanager.rescaling.scaling import highest_parallelism
from tests.builders.counting_job import environment, job_of, totals


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
        pytest.param("4", ArgumentTypeError, "must be an integer", id="no-number"),
        pytest.param({}, ArgumentError, "no operator to rescale", id="nobody"),
        pytest.param({"totls": 2}, ArgumentError, "unknown operator 'totls'", id="misspelt"),
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
    with pytest.raises(InvalidProgramError, match="is not parallel"):
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
