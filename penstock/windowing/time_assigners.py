"""Tumbling and sliding windows, in event time and processing time."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from penstock.errors import MissingTimestampError
from penstock.time.durations import to_millis
from penstock.windowing._checks import offset_below, positive
from penstock.windowing.assigners import WindowAssigner, WindowAssignerContext
from penstock.windowing.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from penstock.windowing.triggers import Trigger
from penstock.windowing.windows import (
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    TimeWindow,
    TimeWindowSerializer,
)

T = TypeVar("T")


class _AlignedWindows(WindowAssigner[T, TimeWindow]):
    """Windows of one size that start every `slide` milliseconds, aligned to the epoch plus an offset."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        self.size = size
        self.slide = slide
        self.offset = offset

    def _windows(self, time: int) -> list[TimeWindow]:
        size, slide = self.size, self.slide
        last = time - (time - self.offset) % slide
        starts = range(last, time - size, -slide)
        if last + size > MAX_TIMESTAMP:
            return [TimeWindow.from_start(start, size) for start in starts]
        return [TimeWindow(start, start + size) for start in starts]

    def get_window_serializer(self) -> TimeWindowSerializer:
        """Return a serializer of time windows."""
        return TimeWindowSerializer()


class _EventTimeWindows(_AlignedWindows[T]):
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """Return the windows that contain the element's timestamp, the latest first."""
        if timestamp == MIN_TIMESTAMP:
            raise MissingTimestampError(
                "a record without a timestamp reached an event-time window",
                hint="call assign_timestamps_and_watermarks(...) before the window, or use processing-time windows",
            )
        return self._windows(timestamp)

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        """Return an EventTimeTrigger."""
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        """Return True."""
        return True


class _ProcessingTimeWindows(_AlignedWindows[T]):
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """Return the windows that contain the current processing time, the latest first."""
        return self._windows(context.get_current_processing_time())

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        """Return a ProcessingTimeTrigger."""
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        """Return False."""
        return False


def _offset_millis(offset: object) -> int:
    return 0 if offset is None else to_millis(offset, "window offset", number=False)


class TumblingEventTimeWindows(_EventTimeWindows[T]):
    """Consecutive event-time windows of one size.

    >>> from datetime import timedelta
    >>> TumblingEventTimeWindows.of(timedelta(minutes=1))
    TumblingEventTimeWindows(60000, 0)
    """

    def __init__(self, size: int, offset: int) -> None:
        size = positive(size, "window size")
        super().__init__(size, size, offset_below(offset, size, "window size"))

    @staticmethod
    def of(size: Any, offset: Any = None) -> TumblingEventTimeWindows[T]:
        """Return the assigner for a size and an offset (Time, Duration or timedelta)."""
        return TumblingEventTimeWindows(
            to_millis(size, "window size", number=False), _offset_millis(offset)
        )

    def __repr__(self) -> str:
        return f"TumblingEventTimeWindows({self.size}, {self.offset})"


class TumblingProcessingTimeWindows(_ProcessingTimeWindows[T]):
    """Consecutive processing-time windows of one size."""

    def __init__(self, size: int, offset: int) -> None:
        size = positive(size, "window size")
        super().__init__(size, size, offset_below(offset, size, "window size"))

    @staticmethod
    def of(size: Any, offset: Any = None) -> TumblingProcessingTimeWindows[T]:
        """Return the assigner for a size and an offset (Time, Duration or timedelta)."""
        return TumblingProcessingTimeWindows(
            to_millis(size, "window size", number=False), _offset_millis(offset)
        )

    def __repr__(self) -> str:
        return f"TumblingProcessingTimeWindows({self.size}, {self.offset})"


class SlidingEventTimeWindows(_EventTimeWindows[T]):
    """Event-time windows of one size that start every `slide`."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        size, slide = positive(size, "window size"), positive(slide, "window slide")
        super().__init__(size, slide, offset_below(offset, slide, "window slide"))

    @staticmethod
    def of(size: Any, slide: Any, offset: Any = None) -> SlidingEventTimeWindows[T]:
        """Return the assigner for a size, a slide and an offset (Time, Duration or timedelta)."""
        return SlidingEventTimeWindows(
            to_millis(size, "window size", number=False),
            to_millis(slide, "window slide", number=False),
            _offset_millis(offset),
        )

    def __repr__(self) -> str:
        return f"SlidingEventTimeWindows({self.size}, {self.slide}, {self.offset})"


class SlidingProcessingTimeWindows(_ProcessingTimeWindows[T]):
    """Processing-time windows of one size that start every `slide`."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        size, slide = positive(size, "window size"), positive(slide, "window slide")
        super().__init__(size, slide, offset_below(offset, slide, "window slide"))

    @staticmethod
    def of(size: Any, slide: Any, offset: Any = None) -> SlidingProcessingTimeWindows[T]:
        """Return the assigner for a size, a slide and an offset (Time, Duration or timedelta)."""
        return SlidingProcessingTimeWindows(
            to_millis(size, "window size", number=False),
            to_millis(slide, "window slide", number=False),
            _offset_millis(offset),
        )

    def __repr__(self) -> str:
        return f"SlidingProcessingTimeWindows({self.size}, {self.slide}, {self.offset})"
