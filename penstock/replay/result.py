"""The result of a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.common.user_types import Record
from penstock.replay.state_check import StateComparison


class SinkRecord(NamedTuple):
    """A record that a sink would have received."""

    value: Record
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class ReplayFailure:
    """The failure of the replayed interval.

    `error` is the exception of the user code, with its traceback. `record` is the failing record, if `record_known`.
    """

    error: BaseException
    message: str
    traceback: str
    vertex: str | None = None
    operator: str | None = None
    subtask: int | None = None
    record_known: bool = False
    record: Record = None

    def __str__(self) -> str:
        where = f"in '{self.operator or self.vertex}', subtask {(self.subtask or 0) + 1}"
        return f"{self.traceback.rstrip()}\n{self.message or where}"


@dataclass(frozen=True, slots=True)
class ReplayedCounts:
    """Records received (known for the head of a chain only) and emitted by an operator, over all subtasks."""

    records_in: int | None
    records_out: int


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of replaying one interval.

    `sinks` holds the records for the sinks, by sink name and then by subtask, in order. `approximations` list where the
    replay may
    differ from the original run. `state` is set if it was requested and the interval is complete.
    """

    job_id: str
    job_name: str
    checkpoint_id: int
    attempt: int
    sinks: Mapping[str, Mapping[int, tuple[SinkRecord, ...]]] = field(default_factory=dict)
    counts: Mapping[str, ReplayedCounts] = field(default_factory=dict)
    failure: ReplayFailure | None = None
    recorded_failure: str | None = None
    state: StateComparison | None = None
    approximations: tuple[str, ...] = ()
    stopped: bool = False  # whether the user quit the debugger before the end

    def records(self, sink: str) -> list[Any]:
        """Return the values that a sink would have received, subtask by subtask."""
        return [
            record.value
            for subtask in sorted(self.sinks[sink])
            for record in self.sinks[sink][subtask]
        ]
