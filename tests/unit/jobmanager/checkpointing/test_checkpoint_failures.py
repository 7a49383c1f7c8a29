"""Timeout and tolerable failures of checkpoints."""

from __future__ import annotations

import threading

import pytest

from penstock.checkpoint.handles import DamagedStateError
from penstock.errors import CheckpointError, RestoreRefusedError
from penstock.jobmanager.checkpointing.checkpoint_failures import (
    CheckpointExpiredError,
    CheckpointFailures,
)

STORAGE = CheckpointError("could not write")


@pytest.mark.parametrize(
    ("tolerable", "failures", "expected"),
    [
        pytest.param(0, [STORAGE], [False], id="none-is-tolerated-by-default"),
        pytest.param(2, [STORAGE] * 3, [True, True, False], id="as-many-in-a-row-as-it-says"),
        pytest.param(1, [STORAGE] * 4, [True, False, True, False], id="again-after-a-restart"),
        pytest.param(1, [STORAGE, None, STORAGE], [True, True], id="a-success-in-between-counts"),
        pytest.param(9, [ValueError("user")], [False], id="user-code-is-no-checkpoint"),
        pytest.param(9, [DamagedStateError("x")], [False], id="damaged-state-has-its-own-way"),
        pytest.param(9, [RestoreRefusedError("x")], [False], id="what-does-not-fit-never-will"),
    ],
)
def test_failed_checkpoints_are_tolerated(
    tolerable: int, failures: list[Exception | None], expected: list[bool]
) -> None:
    counter = CheckpointFailures(tolerable)
    found = []
    for failure in failures:
        if failure is None:
            counter.on_success()
        else:
            found.append(counter.tolerates(failure))
    assert found == expected


def test_a_checkpoint_that_is_not_complete_in_time_is_given_up() -> None:
    given_up = threading.Event()
    with (
        pytest.raises(CheckpointExpiredError, match="timeout of 1 ms"),
        CheckpointExpiredError.after(1, given_up.set),
    ):
        assert given_up.wait(60)


def test_what_the_pipe_says_when_it_is_given_up_is_only_the_cause() -> None:
    given_up = threading.Event()

    def pipe() -> None:
        assert given_up.wait(60)
        raise RuntimeError("job was cancelled")

    with (
        pytest.raises(CheckpointExpiredError) as caught,
        CheckpointExpiredError.after(1, given_up.set),
    ):
        pipe()
    assert str(caught.value.__cause__) == "job was cancelled"


@pytest.mark.parametrize("timeout", [None, 60_000])
def test_other_failures_pass_through(timeout: int | None) -> None:
    with pytest.raises(ValueError, match="user"), CheckpointExpiredError.after(timeout, list):
        raise ValueError("user")
