"""The contract between an operator and the subtask that runs it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from penstock.errors import PenstockError
from penstock.runtime.records import MAX_WATERMARK, MIN_WATERMARK, Batch
from penstock.runtime.time.pace import WALL, Pace


class Output(Protocol):
    """Where an operator emits to: chained operators, exchanges, or a test."""

    def emit(self, batch: Batch) -> None:
        """Send records on."""

    def emit_side(self, tag: str, batch: Batch) -> None:
        """Send records to a side output."""

    def emit_watermark(self, watermark: int) -> None:
        """Say that no record with a timestamp <= watermark follows."""

    def emit_status(self, idle: bool) -> None:
        """Say that this output turned idle or active."""


class UserCodeError(PenstockError, RuntimeError):
    """The user's function raised. Carries the operator and, where known, the record; `__cause__` is the exception."""

    operator_id: str | None = None
    record_known = False
    record: Any = None


@dataclass(slots=True)
class OperatorContext:
    """What an operator gets when it is opened."""

    job_name: str
    operator_id: str
    operator_name: str
    task_name: str
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt_number: int
    epoch: int
    output: Output
    runtime_context: Any  # penstock.runtime.task.context.RuntimeContext, handed to user functions
    keyed_state: (
        Any  # penstock.runtime.state.keyed.KeyedStateBackend, or None when the input is not keyed
    )
    operator_state: Any  # penstock.runtime.state.operator_state.OperatorStateBackend
    timers: Any  # penstock.runtime.time.timers.TimerManager, or None when the input is not keyed
    clock: Callable[[], int]  # processing time in epoch milliseconds
    auto_watermark_interval: int = 200
    batch_mode: bool = False
    job_parameters: dict[str, str] = field(default_factory=dict)
    extras: dict[str, Any] = field(
        default_factory=dict
    )  # attempt, staging directory, source assignment
    pace: Pace = WALL


class StreamOperator:
    """Base of all operators: one input, passes watermarks through, keeps nothing.

    A subtask calls, in this order: `open`; then any mix of `process`, `process_watermark`, `process_status` and
    `advance_processing_time`; `finish` if the input ended for good; `barrier`; then `open_epoch` for the next epoch, if
    the operator still lives in this process; `close` at last.
    """

    def __init__(self, spec: Any) -> None:
        self.spec = spec

    def open(self, context: OperatorContext) -> None:
        """Prepare to run. State has been restored already."""
        self.context = context
        self.output = context.output

    def open_epoch(self, context: OperatorContext) -> None:
        """Go on in the next epoch. State is the one this operator had at its last barrier."""
        self.context = context
        self.output = context.output

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Take records."""
        raise NotImplementedError

    def process_watermark(self, watermark: int) -> None:
        """Take the combined watermark of all inputs; it only moves forward."""
        self.output.emit_watermark(watermark)

    def process_status(self, idle: bool) -> None:
        """Take the combined status of all inputs."""
        self.output.emit_status(idle)

    def advance_processing_time(self, now: int) -> None:
        """Fire what the wall clock allows."""

    def next_wakeup(self) -> int | None:
        """When (epoch milliseconds) this operator wants to run even if no record comes."""
        return None

    def finish(self) -> None:
        """The input has ended for good; the watermark MAX was processed before."""

    def barrier(self) -> list[Any]:
        """All records of the epoch were processed: flush, and return committables (sinks only)."""
        return []

    def close(self) -> None:
        """Release resources."""

    def guard(self, error: BaseException, record: Any = None, known: bool = False) -> UserCodeError:
        """Wrap what the user's function raised."""
        shown = _shorten(record) if known else None
        wrapped = UserCodeError(
            f"{type(error).__name__}: {error}",
            detail=f"in operator '{self.context.operator_name}', subtask {self.context.subtask + 1} of "
            f"{self.context.parallelism}" + (f", record {shown}" if shown is not None else ""),
        )
        wrapped.__cause__ = error
        wrapped.operator_id = self.context.operator_id
        wrapped.record_known, wrapped.record = known, record
        return wrapped


def _shorten(record: Any, limit: int = 200) -> str:
    try:
        text = repr(record)
    except Exception as error:  # noqa: BLE001 - the user's __repr__ may fail; the first error matters more
        text = f"<{type(record).__name__}, repr failed: {error}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."


_PACKAGE: Final = f"{Path(__file__).resolve().parents[2]}/"


def user_traceback(error: BaseException) -> str:
    """Format an exception, and those that led to it, with the user's frames only, where there are any."""
    shown = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = shown
    while part is not None:
        own = [frame for frame in part.stack if not frame.filename.startswith(_PACKAGE)]
        if own:
            part.stack = traceback.StackSummary.from_list(own)
        part = part.__cause__ or part.__context__
    return "".join(shown.format())


def method_of(function: Any, name: str) -> Callable[..., Any]:
    """Return the method that does the work of a user function: `function.<name>`, or the callable itself."""
    method: Callable[..., Any] | None = getattr(function, name, None)
    return method if callable(method) else function


def is_checkpointed(function: Any) -> bool:
    """Whether a user function has both methods of a CheckpointedFunction."""
    return all(
        callable(getattr(function, method, None))
        for method in ("initialize_state", "snapshot_state")
    )


def open_function(function: Any, runtime_context: Any) -> None:
    """Restore the function's state if it keeps any by itself, then call its `open` if it has one."""
    if is_checkpointed(function):
        runtime_context.initialize_function(function)
    opener = getattr(function, "open", None)
    if callable(opener):
        opener(runtime_context)


def close_functions(functions: Sequence[Any]) -> None:
    """Call `close` of each function that has one."""
    for function in functions:
        closer = getattr(function, "close", None)
        if callable(closer):
            closer()


class RecordFailedError(Exception):
    """User code raised on one record of many; `cause` is what it raised."""

    def __init__(self, cause: Exception, record: Any) -> None:
        super().__init__(cause, record)
        self.cause = cause
        self.record = record


def call_each(call: Callable[..., Any], values: list[Any], *columns: Iterable[Any]) -> list[Any]:
    """Return what a user's function returns for each record; raises RecordFailedError.

    A StopIteration of the user's function would end `map` as if there were no more records.
    """
    iterator = iter(values)
    try:
        results = list(map(call, iterator, *columns))
        if len(results) != len(values):
            raise RuntimeError("the function raised StopIteration")
    except Exception as error:
        raise RecordFailedError(
            error, values[position_of_failure(iterator, len(values))]
        ) from error
    return results


def position_of_failure(iterator: Any, total: int) -> int:
    """Return the index of the record that a list iterator handed out last."""
    remaining: int = iterator.__length_hint__()
    return total - remaining - 1


__all__ = [
    "MAX_WATERMARK",
    "MIN_WATERMARK",
    "Batch",
    "OperatorContext",
    "Output",
    "RecordFailedError",
    "StreamOperator",
    "UserCodeError",
    "call_each",
    "close_functions",
    "is_checkpointed",
    "method_of",
    "open_function",
    "position_of_failure",
    "user_traceback",
]
