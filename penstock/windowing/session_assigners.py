"""Session windows: elements separated by less than a gap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from penstock.common.user_types import Record
from penstock.errors import ArgumentTypeError
from penstock.time.durations import to_millis
from penstock.windowing._checks import positive
from penstock.windowing.assigners import MergeCallback, MergingWindowAssigner, WindowAssignerContext
from penstock.windowing.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from penstock.windowing.triggers import Trigger
from penstock.windowing.windows import TimeWindow, TimeWindowSerializer

T = TypeVar("T")


class SessionWindowTimeGapExtractor(ABC):
    """Returns the session gap of each element."""

    @abstractmethod
    def extract(self, element: Record) -> int:
        """Return the gap in milliseconds; it must be positive."""


class SessionWindows(MergingWindowAssigner[T, TimeWindow]):
    """Base class of all session windows: an element opens `[time, time + gap)`; windows that overlap or touch merge."""

    @abstractmethod
    def _gap(self, element: T) -> int:
        """Return the gap after an element."""

    def get_window_serializer(self) -> TimeWindowSerializer:
        """Return a serializer of time windows."""
        return TimeWindowSerializer()

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergeCallback[TimeWindow]
    ) -> None:
        """Merge windows that overlap or touch."""
        TimeWindow.merge_windows(windows, callback)


class _EventTimeSessions(SessionWindows[T]):
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """Return the window of the element. An element without a timestamp gets the minimum timestamp, as in Flink."""
        return (TimeWindow.from_start(timestamp, self._gap(element)),)

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        """Return an EventTimeTrigger."""
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        """Return True."""
        return True


class _ProcessingTimeSessions(SessionWindows[T]):
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """Return the window of the element."""
        now = context.get_current_processing_time()
        return (TimeWindow(now, now + self._gap(element)),)

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        """Return a ProcessingTimeTrigger."""
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        """Return False."""
        return False


class _FixedGap(SessionWindows[T]):
    def __init__(self, session_gap: int) -> None:
        self.session_gap = positive(session_gap, "session gap")

    def _gap(self, element: T) -> int:
        return self.session_gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_gap})"


class _GapPerElement(SessionWindows[T]):
    def __init__(self, session_window_time_gap_extractor: Any) -> None:
        _extract_method(session_window_time_gap_extractor)
        self.extractor = session_window_time_gap_extractor

    def _gap(self, element: T) -> int:
        return positive(_extract_method(self.extractor)(element), "session gap")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extractor!r})"


class EventTimeSessionWindows(_FixedGap[T], _EventTimeSessions[T]):
    """Event-time sessions with a fixed gap."""

    @staticmethod
    def with_gap(size: object) -> EventTimeSessionWindows[T]:
        """Return the assigner for a gap (Time, Duration or timedelta)."""
        return EventTimeSessionWindows(to_millis(size, "session gap", number=False))

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicEventTimeSessionWindows[T]:
        """Return an assigner that calls `extractor` for the gap of each element."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_FixedGap[T], _ProcessingTimeSessions[T]):
    """Processing-time sessions with a fixed gap."""

    @staticmethod
    def with_gap(size: object) -> ProcessingTimeSessionWindows[T]:
        """Return the assigner for a gap (Time, Duration or timedelta)."""
        return ProcessingTimeSessionWindows(to_millis(size, "session gap", number=False))

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicProcessingTimeSessionWindows[T]:
        """Return an assigner that calls `extractor` for the gap of each element."""
        return DynamicProcessingTimeSessionWindows(extractor)


class DynamicEventTimeSessionWindows(_GapPerElement[T], _EventTimeSessions[T]):
    """Event-time sessions with a gap per element."""

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicEventTimeSessionWindows[T]:
        """Return an assigner that calls `extractor` for the gap of each element."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_GapPerElement[T], _ProcessingTimeSessions[T]):
    """Processing-time sessions with a gap per element."""

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicProcessingTimeSessionWindows[T]:
        """Return an assigner that calls `extractor` for the gap of each element."""
        return DynamicProcessingTimeSessionWindows(extractor)


def _extract_method(extractor: object) -> Callable[[Any], int]:
    method = getattr(extractor, "extract", extractor)
    if not callable(method):
        raise ArgumentTypeError(
            f"a session gap extractor must be callable, got {type(extractor).__name__}",
            hint="pass a SessionWindowTimeGapExtractor or a function that returns milliseconds",
        )
    return method
