"""Triggers that fire by time: at the end of a window, or periodically."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

from penstock.time.durations import to_millis
from penstock.windowing._checks import positive
from penstock.windowing._state import InternalDescriptor
from penstock.windowing.triggers import BaseTrigger, OnMergeContext, TriggerContext, TriggerResult
from penstock.windowing.windows import TimeWindow

T = TypeVar("T")

_FIRE_TIME = InternalDescriptor("fire-time", "reducing", min)


class EventTimeTrigger(BaseTrigger[T, TimeWindow]):
    """Fires when the watermark passes the end of the window, and for every late element after that."""

    @staticmethod
    def create() -> EventTimeTrigger[T]:
        """Return the trigger."""
        return EventTimeTrigger()

    def on_element(
        self, element: T, timestamp: int, window: TimeWindow, ctx: TriggerContext
    ) -> TriggerResult:
        """Fire at once if the watermark has passed the window's end, else register a timer for it."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Fire at the end of the window."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: TimeWindow, ctx: OnMergeContext) -> None:
        """Register a timer for the end of the merged window."""
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        """Delete the timer."""
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(BaseTrigger[T, TimeWindow]):
    """Fires when the wall clock passes the end of the window."""

    @staticmethod
    def create() -> ProcessingTimeTrigger[T]:
        """Return the trigger."""
        return ProcessingTimeTrigger()

    def on_element(
        self, element: T, timestamp: int, window: TimeWindow, ctx: TriggerContext
    ) -> TriggerResult:
        """Register a timer for the end of the window."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(
        self, time: int, window: TimeWindow, ctx: TriggerContext
    ) -> TriggerResult:
        """Fire."""
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: TimeWindow, ctx: OnMergeContext) -> None:
        """Register a timer for the end of the merged window."""
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        """Delete the timer."""
        ctx.delete_processing_time_timer(window.max_timestamp())


class _ContinuousTrigger(BaseTrigger[T, TimeWindow]):
    """Base class of the continuous triggers: the interval, and the state with their next fire time."""

    def __init__(self, interval: int) -> None:
        self.interval = positive(interval, "trigger interval")

    @abstractmethod
    def _register(self, ctx: TriggerContext, time: int) -> None:
        """Register a timer."""

    @abstractmethod
    def _delete(self, ctx: TriggerContext, time: int) -> None:
        """Delete a timer."""

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: TimeWindow, ctx: OnMergeContext) -> None:
        """Keep the earliest fire time."""
        ctx.merge_partitioned_state(_FIRE_TIME)
        fire_at = ctx.get_partitioned_state(_FIRE_TIME).get()
        if fire_at is not None:
            self._register(ctx, fire_at)

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        """Delete timers and state."""
        state = ctx.get_partitioned_state(_FIRE_TIME)
        fire_at = state.get()
        if fire_at is not None:
            self._delete(ctx, fire_at)
            state.clear()

    def register_next_fire_timestamp(
        self, time: int, window: TimeWindow, ctx: TriggerContext, fire_timestamp_state: Any
    ) -> None:
        """Fire one interval after `time`, at the window's end at the latest."""
        fire_at = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(fire_at)
        self._register(ctx, fire_at)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.interval})"


class ContinuousEventTimeTrigger(_ContinuousTrigger[T]):
    """Fires whenever the watermark passes another interval, and at the end of the window."""

    @staticmethod
    def of(interval: Any) -> ContinuousEventTimeTrigger[T]:
        """Return a trigger with this interval (Time, Duration or timedelta)."""
        return ContinuousEventTimeTrigger(to_millis(interval, "trigger interval", number=False))

    def on_element(
        self, element: T, timestamp: int, window: TimeWindow, ctx: TriggerContext
    ) -> TriggerResult:
        """Fire at once if the watermark has passed the window's end, else register a timer for the next interval."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        state = ctx.get_partitioned_state(_FIRE_TIME)
        if state.get() is None:
            start = timestamp - timestamp % self.interval
            self.register_next_fire_timestamp(start, window, ctx, state)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Fire at the end of the window or of an interval."""
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        state = ctx.get_partitioned_state(_FIRE_TIME)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        self.register_next_fire_timestamp(time, window, ctx, state)
        return TriggerResult.FIRE

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        """Delete timers and state."""
        super().clear(window, ctx)
        ctx.delete_event_time_timer(window.max_timestamp())

    def _register(self, ctx: TriggerContext, time: int) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, ctx: TriggerContext, time: int) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger[T]):
    """Fires whenever the wall clock passes another interval, until the end of the window."""

    @staticmethod
    def of(interval: Any) -> ContinuousProcessingTimeTrigger[T]:
        """Return a trigger with this interval (Time, Duration or timedelta)."""
        return ContinuousProcessingTimeTrigger(
            to_millis(interval, "trigger interval", number=False)
        )

    def on_element(
        self, element: T, timestamp: int, window: TimeWindow, ctx: TriggerContext
    ) -> TriggerResult:
        """Register a timer for the next interval."""
        state = ctx.get_partitioned_state(_FIRE_TIME)
        if state.get() is None:
            now = ctx.get_current_processing_time()
            self.register_next_fire_timestamp(now - now % self.interval, window, ctx, state)
        return TriggerResult.CONTINUE

    def on_processing_time(
        self, time: int, window: TimeWindow, ctx: TriggerContext
    ) -> TriggerResult:
        """Fire at the end of an interval."""
        state = ctx.get_partitioned_state(_FIRE_TIME)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        if time < window.max_timestamp():  # the end of the window is the last time
            self.register_next_fire_timestamp(time, window, ctx, state)
        return TriggerResult.FIRE

    def _register(self, ctx: TriggerContext, time: int) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, ctx: TriggerContext, time: int) -> None:
        ctx.delete_processing_time_timer(time)
