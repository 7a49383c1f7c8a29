"""What a replay found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.replay.state_check import StateComparison


class SinkRecord(NamedTuple):
    """A record that a sink would have got."""

    value: Any
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class ReplayFailure:
    """The failure that the epoch came to.

    `error` is what the user's code raised, with its traceback. `record` is the record that it raised on, if `record_known`.
    """

    error: BaseException
    message: str
    traceback: str
    vertex: str | None = None
    operator: str | None = None
    subtask: int | None = None
    record_known: bool = False
    record: Any = None

    def __str__(self) -> str:
        where = f"in '{self.operator or self.vertex}', subtask {(self.subtask or 0) + 1}"
        return f"{self.traceback.rstrip()}\n{self.message or where}"


@dataclass(frozen=True, slots=True)
class OperatorCounts:
    """How many records an operator got (known of the first one of a chain) and emitted, over all subtasks."""

    records_in: int | None
    records_out: int


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """One epoch, run again.

    `sinks` holds what the sinks would have got, by the sink's name and then by subtask, in order. `approximations` say what
    may have come out differently than in the run itself. `state` is there if it was asked for and the epoch is complete.
    """

    job_id: str
    job_name: str
    epoch: int
    attempt: int
    sinks: Mapping[str, Mapping[int, tuple[SinkRecord, ...]]] = field(default_factory=dict)
    counts: Mapping[str, OperatorCounts] = field(default_factory=dict)
    failure: ReplayFailure | None = None
    recorded_failure: str | None = None
    state: StateComparison | None = None
    approximations: tuple[str, ...] = ()
    stopped: bool = False  # the debugger was left before the end

    def records(self, sink: str) -> list[Any]:
        """Return the values that a sink would have got, subtask by subtask."""
        return [
            record.value
            for subtask in sorted(self.sinks[sink])
            for record in self.sinks[sink][subtask]
        ]
