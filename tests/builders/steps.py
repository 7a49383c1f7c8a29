"""Acting between the steps of running jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from penstock.testing.faults import watched_steps


@contextmanager
def at_step(moment: str, act: Callable[[int], Any]) -> Iterator[None]:
    """Call `act(epoch)` at a moment of each epoch of each job: "before run_pipe", "after write_manifest", ..."""

    def hook(found: str, checkpoint_id: int) -> None:
        if found == moment:
            act(checkpoint_id)

    with watched_steps(hook):
        yield


def before_each_epoch(act: Callable[[int], Any]) -> AbstractContextManager[None]:
    """Call a function with the number of each epoch, on the job's own thread, before it runs."""
    return at_step("before run_pipe", act)


def before_each_trigger(act: Callable[[int], Any]) -> AbstractContextManager[None]:
    """Call a function with the number of each checkpoint of a pipelined job, on the job's own thread, before it is triggered."""
    return at_step("before trigger", act)
