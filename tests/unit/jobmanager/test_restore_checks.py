"""Checkpoints that do not fit the program are refused, with the operator and the state in the message."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from counting_job import Counting, before_each_epoch, environment, totals

from penstock.common import Types, WatermarkStrategy
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.errors import CheckpointError, JobCancelledError, RestoreRefusedError
from penstock.testing.mini_cluster import MiniCluster


def first_run(directory: Path) -> str:
    """Run three epochs; return where the job's checkpoints are."""
    with MiniCluster() as cluster:

        def stop(epoch: int) -> None:
            if epoch == 3:
                cluster.masters[0].cancel(graceful=True)

        env = environment(1, execution__checkpointing__dir=str(directory))
        typed = ValueStateDescriptor("total", Types.LONG())
        with before_each_epoch(stop), suppress(JobCancelledError):
            list(totals(env, state=typed).execute_and_collect())
        return cluster.masters[0].store.storage.base


def second_run(path: str, build: Any, **options: str) -> list[Any]:
    """Start a program from there; return what its next two epochs put out, after the one that is committed again."""
    env = environment(1, execution__state_recovery__path=path, **options)
    with MiniCluster() as cluster:

        def stop(epoch: int) -> None:
            if epoch == 5:
                cluster.masters[0].cancel(graceful=True)

        found = []
        with before_each_epoch(stop), suppress(JobCancelledError):
            found.extend(build(env).execute_and_collect())
        return found


def without_state(env: Any) -> Any:
    numbers = env.from_source(
        Counting(), WatermarkStrategy.for_monotonous_timestamps(), "numbers"
    ).uid("numbers")
    return numbers.map(lambda number: number)


def without_key(env: Any) -> Any:
    return without_state(env).uid("totals")


REFUSED = {
    "the-operator-is-gone": (without_state, r"'KEYED PROCESS'|uid 'totals'"),
    "the-uid-has-changed": (lambda env: totals(env, uid="sums"), "uid 'totals'"),
    "the-operator-is-not-keyed": (without_key, "not keyed any more"),
    "the-state-has-another-kind": (
        lambda env: totals(env, state=ListStateDescriptor("total", Types.LONG())),
        "state 'total' of operator",
    ),
    "the-state-has-another-type": (
        lambda env: totals(env, state=ValueStateDescriptor("total", Types.STRING())),
        "Long became String",
    ),
}


@pytest.mark.parametrize("place", ["", "/chk-3"], ids=["the-job-again", "a-new-job"])
@pytest.mark.parametrize(("build", "message"), REFUSED.values(), ids=REFUSED)
def test_a_checkpoint_with_state_that_has_no_place_is_refused(
    build: Any, message: str, place: str, tmp_path: Path
) -> None:
    path = first_run(tmp_path)
    with pytest.raises(RestoreRefusedError, match=message):
        second_run(path + place, build)


@pytest.mark.parametrize("build", [without_state, lambda env: totals(env, uid="sums")])
def test_state_may_be_left_behind_on_request(
    build: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = first_run(tmp_path)
    found = second_run(path, build, execution__state_recovery__ignore_unclaimed_state="true")
    assert len(found) == 20
    assert "uid 'totals'" in caplog.text


def test_the_same_program_goes_on(tmp_path: Path) -> None:
    typed = ValueStateDescriptor("total", Types.LONG())
    path = first_run(tmp_path)
    found = second_run(path, lambda env: totals(env, state=typed))
    assert found[10] == (0, sum(range(0, 30, 5)) + 30)


def test_a_path_without_a_checkpoint_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no checkpoint at"):
        second_run(str(tmp_path / "chk-7"), totals)
