"""What a source implements, in Python.

A source is planned on the driver and read in tasks. `SplitEnumerator.discover` finds splits (a file, a range
of numbers, a partition); each split belongs to one source subtask until it is finished. In every epoch a
subtask calls `SourceReader.read` for each of its splits, from the position that the last completed checkpoint
holds. Where records flow, it does so again and again, from the position that it has reached, and readers must not wait.
"""

from __future__ import annotations

import enum
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.common import clock
from penstock.common.not_implemented import not_implemented
from penstock.errors import RecordError


class Boundedness(enum.Enum):
    """Whether a source ends by itself."""

    BOUNDED = 0
    CONTINUOUS_UNBOUNDED = 1


@dataclass(frozen=True, slots=True)
class SourceSplit:
    """A part of a source that one subtask reads.

    `split_id` is unique within the source and stable over restarts; `payload` is what the reader needs to find
    the data; `start` is the position that reading begins at. A `bounded` split is finished when its reader's generator
    ends, also in a source that is not bounded (a file of a watched directory).
    """

    split_id: str
    payload: Any = None
    start: Any = None
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class MalformedRecord:
    """What a reader found and could not make a record of.

    It fails the job, or goes to the side output of `on_error` as a DeadLetter. `data` is what was found, as it came; `origin` tells where, by
    names that the source's users know (topic, partition, offset). Where positions are ordered, `position` is the one after it. `message` is the
    error's text; `reason` tells it without the data, and `hint` what leaves it out.
    """

    data: Any
    error_type: str
    message: str
    origin: dict[str, Any] = field(default_factory=dict)
    timestamp: int | None = None
    position: Any = None
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
        position: Any = None,
    ) -> MalformedRecord:
        """Describe what a deserialiser raised.

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
    """Return what an error says, without the record if that is its detail."""
    if not error.detail or (isinstance(data, bytes) and repr(data[:20])[:-1] in error.detail):
        return error.message
    return f"{error.message} ({error.detail})"


@dataclass(slots=True)
class SourceBatch:
    """Records that a reader found, in order.

    `timestamps` are epoch milliseconds, one per record, or None if the source knows none. `position` is where to go
    on after these records: it is stored in the checkpoint and given back to `SourceReader.read`.

    A reader whose positions are ordered (`SourceReader.ordered`) also tells where the records come from: `positions` has the
    position after each record, ascending, none twice, `position` last; or `start` is the position before the first one.

    `malformed` is what was found among the records and could not be made one. If the last thing in the batch is malformed, `position` is
    the one after it, and `positions` ends before.
    """

    records: list[Any]
    position: Any
    timestamps: list[int] | None = None
    positions: Sequence[Any] | None = None
    start: Any = None
    malformed: Sequence[MalformedRecord] = ()


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """When a reader should stop for this epoch.

    A reader that waits asks `expired`, or waits for no longer than `remaining`: they do not mind a clock that is set meanwhile.
    `deadline` is the moment on the wall clock, a time.time() value, for those who must tell it to others.

    Records go through the whole chain batch by batch: about a thousand of them still lie in the CPU's cache when the last
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
        """Return limits that end after so long, also if the clock is set this moment."""
        limits = cls(clock.now() + seconds)
        object.__setattr__(limits, "_end", time.monotonic() + seconds)
        return limits

    def with_batch_size(self, batch_size: int) -> ReadLimits:
        """Return the same limits for a reader inside of another one, whose batches have another size."""
        limits = ReadLimits(self.deadline, batch_size)
        object.__setattr__(limits, "_end", self._end)
        return limits

    @property
    def remaining(self) -> float | None:
        """How many seconds are left, at least 0; None if the reader may take as long as it likes."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    @property
    def expired(self) -> bool:
        """Whether the reader should stop now."""
        return self._end is not None and time.monotonic() >= self._end


class OneLook(ReadLimits):
    """Limits of a reader that must not wait: it may look once at what is there.

    `expired` is False when it is first asked, so that a reader which asks before it looks does look.

    >>> limits = OneLook()
    >>> limits.remaining, limits.expired, limits.expired
    (0.0, False, True)
    """

    __slots__ = ("_looked",)
    _looked: bool

    def __init__(self, batch_size: int = 1024) -> None:
        super().__init__(clock.now(), batch_size)
        object.__setattr__(self, "_looked", False)

    def with_batch_size(self, batch_size: int) -> OneLook:
        """Return a look of its own for a reader inside of another one."""
        return OneLook(batch_size)

    @property
    def remaining(self) -> float:
        """Nothing is left: waiting is not allowed."""
        return 0.0

    @property
    def expired(self) -> bool:
        """Whether the reader has looked."""
        looked = self._looked
        object.__setattr__(self, "_looked", True)
        return looked


class SplitEnumerator(ABC):
    """Finds the splits of a source. Lives on the driver."""

    # What `backlog` counts: "records" or "bytes".
    backlog_unit: str = "records"

    @abstractmethod
    def discover(self) -> Iterable[SourceSplit]:
        """Return splits that were not returned before, also not before a restart: see `snapshot`.

        Called before every epoch; where records flow, several times a second, by a thread of its own.

        A split whose id is that of one being read is not read twice, nor is any split that comes after `no_more_splits` of a
        bounded source was True. Of splits that were finished before that, only the enumerator knows that they were found.
        """

    def take_over(self, before: SplitEnumerator) -> None:
        """Take note of the enumerator before this one: the job has failed before its first checkpoint, and begins again.

        For what was decided when the job began, and would be decided otherwise now: where a stream begins that is read from now on.
        """

    def observe(self, unfinished: Sequence[SourceSplit]) -> None:
        """Take note of the splits that are still being read. Called before every `discover`."""

    def observe_finished(self, finished: Sequence[SplitProgress]) -> None:
        """Take note of splits that were read to their end, and of the positions they ended at. Called before every `discover`.

        For what readers have found out that other splits depend on. A durable checkpoint knows that these splits are finished. Each is told again
        and again, also after a restart, until a checkpoint has what `snapshot` returned after it was told.
        """

    @abstractmethod
    def no_more_splits(self) -> bool:
        """Whether `discover` will never return another split. Always False for an unbounded discovery."""

    def snapshot(self) -> Any:
        """Return what this enumerator must remember; any value that pickles."""
        return None

    def has_data(self, positions: Sequence[Any]) -> bool:
        """Whether reading the unfinished splits (at these positions) may give records now.

        An epoch that nothing else asks for is skipped while this is False.
        """
        return bool(positions)

    def backlog(self, splits: Sequence[SplitProgress]) -> int | None:
        """Return about how much waits in these unfinished splits, or None if the source cannot tell.

        The autoscaler asks before and after every epoch, on the driver: no I/O. The unit is `backlog_unit`. A backlog of
        bytes may change only by reading and by `discover`, so that what an epoch took away is what it read.
        """
        return None

    def on_checkpoint(self, splits: Sequence[SplitProgress]) -> None:
        """Take note that a checkpoint is durable, which has read the splits up to these positions.

        For what others should know of the job's progress (offsets of a consumer group): a job that fails in this moment goes on without
        the call. It must not wait, and may come while another thread is in `discover`. What it raises is logged.
        """

    def close(self) -> None:
        """Release resources."""


class SourceReader(ABC):
    """Reads splits. Lives in a task."""

    @abstractmethod
    def read(self, split: SourceSplit, position: Any, limits: ReadLimits) -> Iterator[SourceBatch]:
        """Yield what is there from `position` on.

        The generator ends when the split has nothing more now. For a bounded split and for any split of a bounded
        source that means that the split is finished. The caller may stop iterating at any batch and later call again with that batch's position.
        Batches should hold about `limits.batch_size` records; a reader that waits should give up when `limits.expired`.

        Every record that is yielded is processed, unless the split is `ordered`. Positions are the reader's own business
        (numbers may count down, and a source that cannot go back may have but one), so nobody else can tell that a record comes
        from before `position`.
        """

    def ordered(self, split: SourceSplit) -> bool:
        """Whether the split's positions ascend, so that what is delivered again can be told from what is new.

        Then `read` may yield records from before `position`, after a restart or at any time: they are dropped, and counted as
        `numRecordsRedelivered`. All positions can be compared with `<`, and each batch with records has `SourceBatch.positions`,
        or `SourceBatch.start` if it is never part old and part new. Among batches that have nothing new, the
        caller stops only where it has got on before.
        """
        return False

    def next_ready(self, split: SourceSplit, position: Any) -> float | None:
        """Return in how many seconds the split may have something again, after all that was read; None if the reader cannot tell.

        0 is at once, infinity only after a call of `wake`. Where records flow, a split is asked again then; if this is None, after a
        pause that grows to 10 ms.
        """
        return None

    def use_wake(self, wake: Callable[[], None]) -> None:
        """Take what this reader calls, from any thread, when a split that had nothing has something.

        Where records flow, all splits are asked at once then. It is called before `open`.
        """

    def on_checkpoint(self, split: SourceSplit, position: Any) -> None:
        """Take note that no record from before `position` will ever be asked for again: a durable checkpoint has it.

        A system that keeps data until it is confirmed may let go of it now. It must not wait, and a split that was not read has nothing to
        confirm. A job that ends, or fails in this moment, goes on without the call.
        """

    def open(self, context: Any) -> None:
        """Prepare; `context` is a RuntimeContext."""

    def close(self) -> None:
        """Release resources."""


class Source(ABC):
    """A source of records, in Python."""

    # Whether a bounded source's enumerator keeps splits back until readers have room for them. Watermarks wait until all are assigned: else records
    # of the later ones would be late.
    assigns_on_demand: bool = False

    get_java_function = not_implemented("there is no JVM object behind a source")

    @abstractmethod
    def get_boundedness(self) -> Boundedness:
        """Whether the source ends by itself."""

    @abstractmethod
    def create_enumerator(self, parallelism: int, restored: Any = None) -> SplitEnumerator:
        """Create the enumerator; `restored` is what `SplitEnumerator.snapshot` returned, or None."""

    @abstractmethod
    def create_reader(self) -> SourceReader:
        """Create a reader. The source itself is pickled to the task."""

    def adopt_split(self, split: SourceSplit) -> SourceSplit:
        """Return a split of another job's checkpoint or savepoint as this job can read it."""
        return split

    def adopt_enumerator(self, state: Any) -> Any:
        """Return what the enumerator of another job remembered as this job's enumerator takes it."""
        return state


@dataclass(frozen=True, slots=True)
class SplitProgress:
    """How far a split was read, as a checkpoint holds it."""

    split: SourceSplit
    position: Any
    finished: bool = False
    generator: Any = None  # state of the split's watermark generator
    watermark: int = -(2**63)
    active_ms: int = 0  # when the split last gave a record
    idle: bool = False


@dataclass(slots=True)
class SourceAssignment:
    """What one source subtask reads in one epoch."""

    splits: list[SplitProgress] = field(default_factory=list)
    no_more_splits: bool = False
    idle: bool = False  # other subtasks of the source have splits in this epoch, this one has none
    drain: bool = False  # read nothing more: time goes to its end, and so does the source
