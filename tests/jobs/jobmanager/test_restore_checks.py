"""Checkpoints that do not fit the program are refused, with the operator and the state in the message."""

from __future__ import annotations

import sys
import types
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock import state
from penstock.common import Types, WatermarkStrategy
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.errors import CheckpointError, JobCancelledError, RestoreRefusedError
from penstock.testing import MiniCluster
from tests.builders.counting_job import Counting, Remembering, Total, environment, totals
from tests.builders.steps import before_each_epoch


def remembering(env: Any, uid: str = "remember") -> Any:
    """The running totals, after an operator that remembers the last number."""
    numbers = env.from_source(
        Counting(), WatermarkStrategy.for_monotonous_timestamps(), "numbers"
    ).uid("numbers")
    seen = numbers.map(Remembering()).name("remembers").uid(uid)
    return seen.key_by(lambda number: number % 5).process(Total()).uid("totals")


def first_run(directory: Path, build: Any = None) -> str:
    """Run three epochs; return where the job's checkpoints are."""
    with MiniCluster() as cluster:

        def stop(checkpoint_id: int) -> None:
            if checkpoint_id == 3:
                cluster.masters[0].cancel(graceful=True)

        env = environment(1, execution__checkpointing__dir=str(directory))
        typed = ValueStateDescriptor("total", Types.LONG())
        with before_each_epoch(stop), suppress(JobCancelledError):
            stream = totals(env, state=typed) if build is None else build(env)
            list(stream.execute_and_collect())
        return cluster.masters[0].store.storage.base


def second_run(path: str, build: Any, **options: str) -> list[Any]:
    """Start a program from there; return what its next two epochs put out, after the one that is committed again."""
    env = environment(1, execution__state_recovery__path=path, **options)
    with MiniCluster() as cluster:

        def stop(checkpoint_id: int) -> None:
            if checkpoint_id == 5:
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
    with pytest.raises(CheckpointError, match="no savepoint or checkpoint at"):
        second_run(str(tmp_path / "chk-7"), totals)


@pytest.mark.parametrize("place", ["", "/chk-3"], ids=["the-job-again", "a-new-job"])
@pytest.mark.parametrize(
    "build", [totals, lambda env: remembering(env, "another")], ids=["gone", "another-uid"]
)
def test_operator_state_that_has_no_place_is_refused(
    build: Any, place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = first_run(tmp_path, remembering) + place
    with pytest.raises(RestoreRefusedError) as raised:
        second_run(path, build)
    assert "operator 'remembers' (uid 'remember'): operator state 'list/last'" in str(raised.value)
    found = second_run(path, build, execution__state_recovery__ignore_unclaimed_state="true")
    assert found[10] == (0, sum(range(0, 30, 5)) + 30)
    assert "operator state 'list/last'" in caplog.text


def test_operator_state_of_a_class_that_is_gone_can_be_left_behind(tmp_path: Path) -> None:
    module = sys.modules["vanishing_module"] = types.ModuleType("vanishing_module")
    thing = type("Thing", (), {"__init__": lambda self, value: vars(self).update(value=value)})
    thing.__module__, module.Thing = "vanishing_module", thing  # type: ignore[attr-defined]
    try:
        checkpoint = first_run(tmp_path / "first", remembering)
        savepoint = state.edit(checkpoint).write(tmp_path / "savepoints")
    finally:
        del sys.modules["vanishing_module"]
    with pytest.raises(
        RestoreRefusedError, match="has state of operators that the program does not have"
    ):
        second_run(savepoint, totals)
    left = {"execution__state_recovery__ignore_unclaimed_state": "true"}
    found = second_run(savepoint, totals, **left)
    assert found[0] == (0, sum(range(0, 30, 5)) + 30)


def test_another_number_of_key_groups_is_refused_before_anything_runs(tmp_path: Path) -> None:
    path = first_run(tmp_path)
    typed = ValueStateDescriptor("total", Types.LONG())
    with pytest.raises(RestoreRefusedError) as raised:
        second_run(path, lambda env: totals(env, state=typed).set_max_parallelism(64))
    assert raised.value.message == (
        "operator 'KEYED PROCESS' (uid 'totals') has max parallelism 64, but its keyed state was written with 128"
    )
    assert raised.value.hint is not None
    assert "set it to 128" in raised.value.hint


def test_more_subtasks_than_key_groups_are_refused(tmp_path: Path) -> None:
    path = first_run(tmp_path)
    typed = ValueStateDescriptor("total", Types.LONG())
    with pytest.raises(RestoreRefusedError) as raised:
        second_run(path, lambda env: totals(env, state=typed).set_parallelism(129))
    assert "has parallelism 129, above the max parallelism 128 of its state" in raised.value.message
    assert raised.value.hint == "set a parallelism of at most 128"


def test_a_savepoint_whose_operator_is_gone_is_refused_by_the_names_of_its_states(
    tmp_path: Path,
) -> None:
    savepoint = str(state.edit(first_run(tmp_path / "first")).write(tmp_path / "savepoints"))
    with pytest.raises(RestoreRefusedError) as raised:
        second_run(savepoint, without_state)
    assert raised.value.detail == "operator 'KEYED PROCESS' (uid 'totals'): keyed state 'total'"
    assert f"penstock state ls {savepoint}" in str(raised.value.hint)


def test_a_checkpoint_that_is_refused_says_how_to_look_at_it(tmp_path: Path) -> None:
    path = first_run(tmp_path)
    with pytest.raises(RestoreRefusedError) as raised:
        second_run(path, without_state)
    assert f"penstock state ls {path}'" in str(raised.value.hint)
