"""The source API.

A source is planned on the driver and read in tasks. `SplitEnumerator.discover` finds splits (a file, a range of numbers, a
partition); each split belongs to one source subtask until it is finished. In epoch mode, a subtask calls `SourceReader.read` in
every epoch for each of its splits, from the position in the last completed checkpoint. In pipelined mode, it does so
continuously, from the position that it has reached, and readers must not block.
"""

from __future__ import annotations

import enum
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.common.user_types import Position, StateValue
from penstock.errors import RecordError
from penstock.errors.not_implemented import not_implemented
from penstock.time import clock


class Boundedness(enum.Enum):
    """Whether a source is bounded."""

    BOUNDED = 0
    CONTINUOUS_UNBOUNDED = 1


@dataclass(frozen=True, slots=True)
class SourceSplit:
    """A part of a source that one subtask reads.

    `split_id` is unique within the source and stable over restarts; `payload` is what the reader needs to find the data;
    `start` is the position at which reading starts. A `bounded` split is finished when its reader's generator ends, even in
    an unbounded source (a file of a monitored directory).
    """

    split_id: str
    payload: Any = None
    start: Any = None
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class MalformedRecord:
    """Input that a reader could not turn into a record.

    It fails the job, or goes to the side output of `on_error` as a DeadLetter. `data` is the raw input; `origin` is its
    location, in terms that users of the source know (topic, partition, offset). If positions are ordered, `position` is the
    one after it. `message` is the error's text; `reason` is the error without the data, and `hint` says how to skip such
    input.
    """

    data: Any
    error_type: str
    message: str
    origin: dict[str, Any] = field(default_factory=dict)
    timestamp: int | None = None
    position: Position = None
    reason: str = ""
    hint: str | None = None

    @classmethod
    def of(
        cls,
        data: Any,
        error: Exception,
        origin: dict[str, Any],
        *,
        timestamp: int | None = None,
        position: Position = None,
    ) -> MalformedRecord:
        """Create one from an exception of a deserializer.

        >>> MalformedRecord.of(b"x", ValueError("not a number"), {"line": 3}).error_type
        'ValueError'
        """
        kind = type(error)
        name = kind.__qualname__
        if kind.__module__ != "builtins":
            name = f"{kind.__module__}.{name}"
        reason, hint = f"{name}: {error}", None
        if isinstance(error, RecordError):
            reason, hint = _without_data(error, data), error.hint
        return cls(data, name, str(error), origin, timestamp, position, reason, hint)


def _without_data(error: RecordError, data: Any) -> str:
    """Return an error's text, without its detail if that is the record."""
    if not error.detail or (isinstance(data, bytes) and repr(data[:20])[:-1] in error.detail):
        return error.message
    return f"{error.message} ({error.detail})"


@dataclass(slots=True)
class SourceBatch:
    """Records of a reader, in order.

    `timestamps` are epoch milliseconds, one per record, or None if the source has none. `position` is where to resume after these
    records: it is stored in the checkpoint and passed back to `SourceReader.read`.

    A reader with ordered positions (`SourceReader.ordered`) also sets where the records come from: `positions` has the position
    after each record, strictly ascending, `position` last; or `start` is the position before the first one.

    `malformed` is malformed input among the records. If the last item of the batch is malformed, `position` is the one after
    it, and `positions` ends before.
    """

    records: list[Any]
    position: Position
    timestamps: list[int] | None = None
    positions: Sequence[Any] | None = None
    start: Any = None
    malformed: Sequence[MalformedRecord] = ()


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """When a reader should stop reading.

    A reader that waits checks `expired`, or waits no longer than `remaining`: both use a monotonic clock. `deadline` is the
    wall-clock time, a time.time() value, for use outside the process.

    Records pass through the whole chain batch by batch: about a thousand of them are still in the CPU cache when the last
    operator pickles them (measured: 15 % less time than batches of 4096).
    """

    deadline: float | None = None
    batch_size: int = 1024
    _end: float | None = field(default=None, init=False, repr=False, compare=False)  # monotonic

    def __post_init__(self) -> None:
        if self.deadline is not None:
            object.__setattr__(self, "_end", time.monotonic() + self.deadline - clock.now())

    @classmethod
    def lasting(cls, seconds: float) -> ReadLimits:
        """Return limits that end after this many seconds of the monotonic clock."""
        limits = cls(clock.now() + seconds)
        object.__setattr__(limits, "_end", time.monotonic() + seconds)
        return limits

    def with_batch_size(self, batch_size: int) -> ReadLimits:
        """Return the same limits with another batch size, for a nested reader."""
        limits = ReadLimits(self.deadline, batch_size)
        object.__setattr__(limits, "_end", self._end)
        return limits

    @property
    def remaining(self) -> float | None:
        """How many seconds are left, at least 0; None without a limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    @property
    def expired(self) -> bool:
        """Whether the reader should stop now."""
        return self._end is not None and time.monotonic() >= self._end


class NonBlockingReadLimits(ReadLimits):
    """Limits of a reader that must not wait: it may check once for available records.

    `expired` is False when it is first read, so that a reader that checks it first does read once.

    >>> limits = NonBlockingReadLimits()
    >>> limits.remaining, limits.expired, limits.expired
    (0.0, False, True)
    """

    __slots__ = ("_looked",)
    _looked: bool

    def __init__(self, batch_size: int = 1024) -> None:
        super().__init__(clock.now(), batch_size)
        object.__setattr__(self, "_looked", False)

    def with_batch_size(self, batch_size: int) -> NonBlockingReadLimits:
        """Return separate limits for a nested reader."""
        return NonBlockingReadLimits(batch_size)

    @property
    def remaining(self) -> float:
        """Return 0: waiting is not allowed."""
        return 0.0

    @property
    def expired(self) -> bool:
        """Whether the reader has checked once."""
        looked = self._looked
        object.__setattr__(self, "_looked", True)
        return looked


class SplitEnumerator(ABC):
    """Finds the splits of a source. Runs on the driver."""

    # The unit of `backlog`: "records" or "bytes".
    backlog_unit: str = "records"

    @abstractmethod
    def discover(self) -> Iterable[SourceSplit]:
        """Return splits that were not returned before, including before a restart: see `snapshot`.

        Called before every epoch; in pipelined mode several times a second, in its own thread.

        A split with the id of one that is being read is ignored, and so is any split after `no_more_splits` of a bounded
        source was True. Of splits that were finished before that, only the enumerator knows that they were found.
        """

    def take_over(self, before: SplitEnumerator) -> None:
        """Continue after another enumerator: the job failed before its first checkpoint, and starts again.

        For decisions that were made at the start of the job and would differ now, such as the latest offsets.
        """

    def prepare(self, interrupted: Callable[[], bool]) -> None:
        """Do what needs the cluster before the tasks of the job hold its slots: let Spark read a DataFrame.

        Called after every start and restart, after `take_over`. It may take long, and ends with a JobCancelledError when it is interrupted.
        """

    def observe(self, unfinished: Sequence[SourceSplit]) -> None:
        """Receive the splits that are still being read. Called before every `discover`."""

    def observe_finished(self, finished: Sequence[SplitProgress]) -> None:
        """Receive splits that were read to their end, with their last positions. Called before every `discover`.

        For results of readers that other splits depend on. That these splits are finished is in a durable checkpoint. Each of
        them is reported repeatedly, also after a restart, until a checkpoint contains a `snapshot` taken after it was
        reported.
        """

    @abstractmethod
    def no_more_splits(self) -> bool:
        """Whether `discover` will never return another split. Always False for unbounded discovery."""

    def snapshot(self) -> StateValue:
        """Return the enumerator's state; any picklable value."""
        return None

    def has_data(self, positions: Sequence[Any]) -> bool:
        """Whether reading the unfinished splits (at these positions) may return records now.

        While this is False, an epoch that is not needed otherwise is skipped.
        """
        return bool(positions)

    def backlog(self, splits: Sequence[SplitProgress]) -> int | None:
        """Return the approximate backlog of these unfinished splits, or None if it is unknown.

        The autoscaler calls it before and after every epoch, on the driver: no I/O. The unit is `backlog_unit`. A backlog of
        bytes may change only by reading and by `discover`, so that its decrease in an epoch is what was read.
        """
        return None

    def on_checkpoint(self, splits: Sequence[SplitProgress]) -> None:
        """Handle that a checkpoint with these positions of splits is durable.

        To report the job's progress to other systems (offsets of a consumer group): if the job fails at this moment, the call is
        skipped. It must not block, and may run while another thread is in `discover`. Exceptions are logged.
        """

    def close(self) -> None:
        """Release resources."""


class SourceReader(ABC):
    """Reads splits. Runs in a task."""

    @abstractmethod
    def read(
        self, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        """Yield the available records from `position` on.

        The generator ends when the split has no more records for now. For a bounded split and for any split of a bounded
        source that means that the split is finished. The caller may stop iterating at any batch and call again later with
        that batch's position. Batches should have about `limits.batch_size` records; a reader that waits should stop when
        `limits.expired`.

        Every yielded record is processed, unless the split is `ordered`. The caller cannot compare positions of other splits
        (they may count down, and a source that cannot seek may have only one), so it cannot detect records from before
        `position`.
        """

    def ordered(self, split: SourceSplit) -> bool:
        """Whether the split's positions ascend, so that redelivered records can be detected.

        Then `read` may yield records from before `position`, after a restart or at any time: they are dropped, and counted as
        `numRecordsRedelivered`. All positions can be compared with `<`, and each batch with records has
        `SourceBatch.positions`, or `SourceBatch.start` if all its records are either old or new. Among batches without new
        records, the caller stops only after it has made progress.
        """
        return False

    def next_ready(self, split: SourceSplit, position: Position) -> float | None:
        """Return the number of seconds until the split may have records again, after everything was read; None if unknown.

        0 means at once, infinity only after a call of `wake`. In pipelined mode, the split is read again then; if this is
        None, after a pause that grows to 10 ms.
        """
        return None

    def use_wake(self, wake: Callable[[], None]) -> None:
        """Set the callback to call, from any thread, when an empty split has records again.

        In pipelined mode, all splits are read at once then. Called before `open`.
        """

    def on_checkpoint(self, split: SourceSplit, position: Position) -> None:
        """Handle that no record from before `position` will be requested again: it is in a durable checkpoint.

        A system that keeps data until it is confirmed may discard it now. It must not block, and a split that was not read
        has nothing to confirm. If the job ends or fails at this moment, the call is skipped.
        """

    def open(self, context: Any) -> None:
        """Prepare; `context` is a RuntimeContext."""

    def close(self) -> None:
        """Release resources."""


class Source(ABC):
    """A source of records."""

    # Whether a bounded source's enumerator holds splits back until readers are free. Watermarks wait until all are assigned: else
    # records of the later ones would be late.
    assigns_on_demand: bool = False

    # Cores of Spark that the source needs besides those that its job holds in pipelined mode.
    reserved_slots: int = 0

    get_java_function = not_implemented("there is no JVM object behind a source")

    @abstractmethod
    def get_boundedness(self) -> Boundedness:
        """Return whether the source is bounded."""

    @abstractmethod
    def create_enumerator(self, parallelism: int, restored: StateValue = None) -> SplitEnumerator:
        """Create the enumerator; `restored` is a result of `SplitEnumerator.snapshot`, or None."""

    @abstractmethod
    def create_reader(self) -> SourceReader:
        """Create a reader. The source itself is pickled to the task."""

    def adopt_split(self, split: SourceSplit) -> SourceSplit:
        """Return a split of another job's checkpoint or savepoint in a form that this job can read."""
        return split

    def adopt_enumerator(self, state: Any) -> Any:
        """Return the enumerator state of another job in a form that this job's enumerator accepts."""
        return state


@dataclass(frozen=True, slots=True)
class SplitProgress:
    """How far a split was read, as stored in a checkpoint."""

    split: SourceSplit
    position: Position
    finished: bool = False
    generator: Any = None  # state of the split's watermark generator
    watermark: int = -(2**63)
    active_ms: int = 0  # when the split last returned a record
    idle: bool = False


@dataclass(slots=True)
class SourceAssignment:
    """The splits that one source subtask reads in one epoch."""

    splits: list[SplitProgress] = field(default_factory=list)
    no_more_splits: bool = False
    idle: bool = False  # other subtasks of the source have splits in this epoch, this one has none
    drain: bool = False  # read nothing more: emit the maximum watermark and finish
