"""Faults on command: interrupt a job between two steps of its checkpoint protocol.

A job repeats, checkpoint for checkpoint, the steps `run_pipe` (in epochs) or `trigger` (in pipelined mode), `write_manifest`,
`commit_sink` (once for each sink), `delete_checkpoint` and `delete_files` (when there is something to delete). A fault strikes before
or after one of them.
Use it to see that a sink or a source of your own keeps its promises:

    with protocol_faults(StepFault("before commit_sink", 3)) as faults:
        env.execute()
    assert faults.struck == [...]
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from penstock.client.executors import watched_steps
from penstock.errors import ArgumentError

__all__ = [
    "EXIT_CODE",
    "MOMENTS",
    "STEPS",
    "InjectedFaultError",
    "ProtocolFaults",
    "StepFault",
    "moments",
    "protocol_faults",
    "watched_steps",
]

_BEGINNINGS = {"epochs": "run_pipe", "pipelined": "trigger"}  # what a checkpoint begins with
STEPS = (
    *_BEGINNINGS.values(),
    "write_manifest",
    "commit_sink",
    "delete_checkpoint",
    "delete_files",
)
MOMENTS = tuple(f"{side} {step}" for step in STEPS for side in ("before", "after"))

EXIT_CODE = 86


def moments(mode: str) -> tuple[str, ...]:
    """Return the moments that come in a mode of execution, in their order.

    >>> moments("pipelined")[:3]
    ('before trigger', 'after trigger', 'before write_manifest')
    """
    others = [step for name, step in _BEGINNINGS.items() if name != mode]
    return tuple(moment for moment in MOMENTS if moment.split()[1] not in others)


class InjectedFaultError(RuntimeError):
    """Raised by a fault; the job's restart strategy decides what happens next."""


@dataclass(frozen=True, slots=True)
class StepFault:
    """A fault that strikes once, when a moment comes for the `occurrence`-th time in this process.

    `action` is `raise` (an exception on the driver) or `exit` (the driver process ends on the spot, without clean-up).
    """

    moment: str
    occurrence: int = 1
    action: Literal["raise", "exit"] = "raise"

    def __post_init__(self) -> None:
        if self.moment not in MOMENTS:
            raise ArgumentError(
                f"unknown moment {self.moment!r} of the checkpoint protocol",
                hint=f"one of {', '.join(MOMENTS)}",
            )
        if self.occurrence < 1:
            raise ArgumentError(f"invalid occurrence {self.occurrence}, it must be at least 1")
        if self.action not in {"raise", "exit"}:
            raise ArgumentError(
                f"the action of a fault must be 'raise' or 'exit', not {self.action!r}"
            )


class ProtocolFaults:
    """Watches the steps of jobs in this process and lets faults strike."""

    def __init__(self, *faults: StepFault) -> None:
        self._waiting = set(faults)
        self._seen: Counter[str] = Counter()  # how often each moment came, over all restarts
        self.struck: list[StepFault] = []

    @property
    def waiting(self) -> frozenset[StepFault]:
        """The faults that have not struck yet."""
        return frozenset(self._waiting)

    def on_step(self, moment: str, checkpoint_id: int) -> None:
        """Take note of a step; this is a hook for `watched_steps`."""
        self._seen[moment] += 1
        for fault in self._waiting:
            if fault.moment == moment and fault.occurrence == self._seen[moment]:
                self._waiting.discard(fault)
                self.struck.append(fault)
                if fault.action == "exit":
                    os._exit(EXIT_CODE)
                raise InjectedFaultError(f"fault {moment}, checkpoint {checkpoint_id}")


@contextmanager
def protocol_faults(*faults: StepFault) -> Iterator[ProtocolFaults]:
    """Let faults strike in the jobs that this process starts meanwhile."""
    watcher = ProtocolFaults(*faults)
    with watched_steps(watcher.on_step):
        yield watcher
