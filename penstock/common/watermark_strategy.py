"""Event time: where timestamps come from and how watermarks follow them."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Protocol

from penstock.common.user_types import Record, StateValue
from penstock.errors import ArgumentTypeError, UnsupportedOperationError
from penstock.time.durations import Duration, to_millis

MIN_TIMESTAMP = -(2**63)
MAX_TIMESTAMP = 2**63 - 1


class TimestampAssigner(ABC):
    """Finds the timestamp of a record."""

    @abstractmethod
    def extract_timestamp(self, value: Record, record_timestamp: int) -> int:
        """Return the record's timestamp in epoch milliseconds.

        `record_timestamp` is the one it has already, -2^63 if it has none.
        """


class _ExtractsTimestamps(Protocol):
    extract_timestamp: Callable[[Any, int], int]


class FunctionTimestampAssigner:
    """A plain function `(value, record_timestamp) -> timestamp` as a timestamp assigner."""

    __slots__ = ("extract_timestamp",)

    def __init__(self, function: Callable[[Any, int], int]) -> None:
        self.extract_timestamp = function  # no method around it: this runs once per record


@dataclass(frozen=True, slots=True, order=True)
class Watermark:
    """Says that no record with a timestamp at or below `timestamp` follows."""

    timestamp: int
    MAX: ClassVar[int] = MAX_TIMESTAMP

    def get_timestamp(self) -> int:
        """Return the timestamp."""
        return self.timestamp


class WatermarkOutput(ABC):
    """Where a watermark generator emits to."""

    @abstractmethod
    def emit_watermark(self, watermark: Watermark | int) -> None:
        """Emit a watermark; this ends idleness. One that does not move forward is ignored."""

    @abstractmethod
    def mark_idle(self) -> None:
        """Say that this output is idle: others need not wait for its watermark."""

    @abstractmethod
    def mark_active(self) -> None:
        """Mark this output as active again."""


class WatermarkGenerator(ABC):
    """Makes watermarks from the records it sees: at each record, periodically, or both."""

    @abstractmethod
    def on_event(self, event: Record, timestamp: int, output: WatermarkOutput) -> None:
        """See a record; a watermark may be emitted right away."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit a watermark, if there is one. Called every auto-watermark interval."""

    def snapshot(self) -> StateValue:
        """Return what the generator must remember over a checkpoint; any value that pickles."""
        return None

    def restore(self, state: Any) -> None:
        """Go on from what `snapshot` returned."""


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    """Watermarks that trail the highest timestamp by a bound: max timestamp - bound - 1."""

    def __init__(self, max_out_of_orderness: Any) -> None:
        self.bound = to_millis(max_out_of_orderness, "max_out_of_orderness", minimum=0)
        self.max_timestamp: int | None = None

    def current_watermark(self) -> int:
        """Return the watermark of what was seen so far; -2^63 before any record."""
        if self.max_timestamp is None:
            return MIN_TIMESTAMP
        return max(MIN_TIMESTAMP, self.max_timestamp - self.bound - 1)

    def on_event(self, event: Record, timestamp: int, output: WatermarkOutput) -> None:
        """Remember the highest timestamp."""
        if self.max_timestamp is None or timestamp > self.max_timestamp:
            self.max_timestamp = timestamp

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit the watermark."""
        output.emit_watermark(self.current_watermark())

    def snapshot(self) -> int | None:
        """Return the highest timestamp."""
        return self.max_timestamp

    def restore(self, state: int | None) -> None:
        """Go on from a highest timestamp."""
        self.max_timestamp = state


class AscendingTimestampsWatermarks(BoundedOutOfOrdernessWatermarks):
    """Watermarks for timestamps that never go back: max timestamp - 1."""

    def __init__(self) -> None:
        super().__init__(0)


class NoWatermarks(WatermarkGenerator):
    """No watermarks at all."""

    def on_event(self, event: Record, timestamp: int, output: WatermarkOutput) -> None:
        """Do nothing."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class WatermarkAlignment:
    """How far sources of one group may be ahead of the slowest."""

    group: str
    max_drift_ms: int
    update_interval_ms: int = 1000


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """How a stream gets its timestamps and watermarks. Immutable: `with_...` returns another strategy.

    >>> from penstock.common import Duration
    >>> strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    >>> strategy.with_timestamp_assigner(lambda value, _: value["ts"]).max_out_of_orderness_ms
    5000
    """

    supplier: Callable[[], WatermarkGenerator]
    max_out_of_orderness_ms: int | None = None  # of the bounded and monotonous kinds
    emits_watermarks: bool = True
    timestamp_assigner: _ExtractsTimestamps | None = None
    idle_timeout_ms: int | None = None
    watermark_alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: object) -> WatermarkStrategy:
        """Trail the highest timestamp by a bound: records that are later than that are late."""
        bound = to_millis(max_out_of_orderness, "max_out_of_orderness", minimum=0, number=False)
        return WatermarkStrategy(_BoundedSupplier(bound), max_out_of_orderness_ms=bound)

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Follow timestamps that never go back."""
        return WatermarkStrategy(AscendingTimestampsWatermarks, max_out_of_orderness_ms=0)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Make no watermarks: event time stands still until the input ends."""
        return WatermarkStrategy(NoWatermarks, emits_watermarks=False)

    @staticmethod
    def for_generator(supplier: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Use a generator of your own: a WatermarkGenerator class, or a function that creates one."""
        if isinstance(supplier, WatermarkGenerator) or not callable(supplier):
            raise ArgumentTypeError(
                f"supplier does not create watermark generators: {supplier!r}",
                hint="give the class, or a function without arguments: every split has its own generator",
            )
        return WatermarkStrategy(supplier)

    def with_timestamp_assigner(self, timestamp_assigner: Any) -> WatermarkStrategy:
        """Take timestamps from a TimestampAssigner, or from a function `(value, record_timestamp)`."""
        if callable(getattr(timestamp_assigner, "extract_timestamp", None)):
            if isinstance(timestamp_assigner, type):
                raise ArgumentTypeError(
                    f"timestamp_assigner is a class: {timestamp_assigner.__name__}",
                    hint=f"give an object: {timestamp_assigner.__name__}()",
                )
        elif callable(timestamp_assigner):
            timestamp_assigner = FunctionTimestampAssigner(timestamp_assigner)
        else:
            raise ArgumentTypeError(
                f"timestamp_assigner is not a timestamp assigner: {timestamp_assigner!r}",
                hint="give a TimestampAssigner or a function (value, record_timestamp) -> milliseconds",
            )
        return dataclasses.replace(self, timestamp_assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: object) -> WatermarkStrategy:
        """Mark a split as idle if it produced no record for this long, so that it does not hold back the watermark."""
        timeout = to_millis(idle_timeout, "idle_timeout", minimum=1, number=False)
        return dataclasses.replace(self, idle_timeout_ms=timeout)

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: object,
        update_interval: object = None,
    ) -> WatermarkStrategy:
        """Pause the splits of a source that are ahead of the slowest of its group by more than the allowed drift.

        Sources tell how far they have come every `update_interval`, one second if none is given. It works in pipelined jobs; those that run in
        epochs are warned.
        """
        if not isinstance(watermark_group, str) or not watermark_group:
            raise ArgumentTypeError(f"watermark_group is not a name: {watermark_group!r}")
        interval = 1000
        if update_interval is not None:
            interval = to_millis(update_interval, "update_interval", minimum=1, number=False)
        drift = to_millis(
            max_allowed_watermark_drift, "max_allowed_watermark_drift", minimum=0, number=False
        )
        return dataclasses.replace(
            self, watermark_alignment=WatermarkAlignment(watermark_group, drift, interval)
        )

    def create_generator(self) -> WatermarkGenerator:
        """Create the generator of one split."""
        generator = self.supplier()
        if not callable(getattr(generator, "on_event", None)) or not callable(
            getattr(generator, "on_periodic_emit", None)
        ):
            raise ArgumentTypeError(
                f"the supplier created {generator!r}, which is not a WatermarkGenerator"
            )
        return generator


@dataclass(frozen=True, slots=True)
class _BoundedSupplier:
    bound: int

    def __call__(self) -> WatermarkGenerator:
        return BoundedOutOfOrdernessWatermarks(self.bound)


class AssignerWithPeriodicWatermarksWrapper:
    """PyFlink's wrapper of a Java assigner: there is no Java here, so it cannot be created."""

    def __init__(self, j_assigner_with_periodic_watermarks: Any) -> NoReturn:
        raise UnsupportedOperationError(
            "assigners written in Java are not supported",
            hint="use WatermarkStrategy.for_generator with a Python WatermarkGenerator",
        )


__all__ = [
    "AscendingTimestampsWatermarks",
    "AssignerWithPeriodicWatermarksWrapper",
    "BoundedOutOfOrdernessWatermarks",
    "Duration",
    "NoWatermarks",
    "TimestampAssigner",
    "Watermark",
    "WatermarkAlignment",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]
