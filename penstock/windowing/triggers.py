"""Triggers: decide when a window is evaluated, and when its contents are purged."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeAlias, TypeVar

from penstock.windowing.windows import Window

T = TypeVar("T")
W = TypeVar("W", bound=Window)


class TriggerResult(enum.Enum):
    """The action for a window: evaluate it (fire), drop its contents (purge), both, or nothing."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Whether the window is evaluated."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether the window's contents are dropped."""
        return self.value[1]


class TriggerContext(ABC):
    """The context of a trigger: clocks, timers and state of the current key and window."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Return the processing time in epoch milliseconds."""

    @abstractmethod
    def get_current_watermark(self) -> int:
        """Return the operator's watermark."""

    @abstractmethod
    def get_metric_group(self) -> Any:
        """Return the operator's metrics."""

    @abstractmethod
    def register_processing_time_timer(self, time: int) -> None:
        """Call `on_processing_time` when the wall clock reaches `time`."""

    @abstractmethod
    def register_event_time_timer(self, time: int) -> None:
        """Call `on_event_time` when the watermark reaches `time`."""

    @abstractmethod
    def delete_processing_time_timer(self, time: int) -> None:
        """Delete a processing-time timer."""

    @abstractmethod
    def delete_event_time_timer(self, time: int) -> None:
        """Delete an event-time timer."""

    @abstractmethod
    def get_partitioned_state(self, state_descriptor: Any) -> Any:
        """Return the trigger's state of the current key and window."""


class OnMergeContext(TriggerContext):
    """The context of `on_merge`; its window is the merged one."""

    @abstractmethod
    def merge_partitioned_state(self, state_descriptor: Any) -> None:
        """Merge the trigger's state of the merged windows into that of the new window."""


_TriggerContext = TriggerContext
_OnMergeContext = OnMergeContext


class Trigger(ABC, Generic[T, W]):
    """Decides when a window is evaluated. One object is used for all keys and windows: keep state in the context only."""

    TriggerContext: TypeAlias = _TriggerContext
    OnMergeContext: TypeAlias = _OnMergeContext

    @abstractmethod
    def on_element(
        self, element: T, timestamp: int, window: W, ctx: TriggerContext
    ) -> TriggerResult:
        """Decide after an element was added."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Decide when a processing-time timer fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Decide when an event-time timer fires."""

    def can_merge(self) -> bool:
        """Whether the trigger supports merging windows, such as sessions."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: OnMergeContext) -> None:
        """Merge state and timers after windows were merged into `window`."""

    @abstractmethod
    def clear(self, window: W, ctx: TriggerContext) -> None:
        """Delete all state and timers of a window that is cleared."""


class BaseTrigger(Trigger[T, W]):
    """A trigger that does nothing: the base class of the built-in ones."""

    def on_element(
        self, element: T, timestamp: int, window: W, ctx: TriggerContext
    ) -> TriggerResult:
        """Continue."""
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Continue."""
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Continue."""
        return TriggerResult.CONTINUE

    def on_merge(self, window: W, ctx: OnMergeContext) -> None:
        """Do nothing: there is no state."""

    def clear(self, window: W, ctx: TriggerContext) -> None:
        """Do nothing: there is no state."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class NeverTrigger(BaseTrigger[T, W]):
    """Never fires: the default of global windows."""


class PurgingTrigger(Trigger[T, W]):
    """Delegates to another trigger and purges the contents whenever it fires."""

    def __init__(self, nested_trigger: Trigger[T, W]) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[T, W]) -> PurgingTrigger[T, W]:
        """Return a trigger that purges when `nested_trigger` fires."""
        return PurgingTrigger(nested_trigger)

    def on_element(
        self, element: T, timestamp: int, window: W, ctx: TriggerContext
    ) -> TriggerResult:
        """Delegate to the nested trigger, and purge."""
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Delegate to the nested trigger, and purge."""
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Delegate to the nested trigger, and purge."""
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        """Whether the nested trigger supports merging."""
        return self.nested_trigger.can_merge()

    def on_merge(self, window: W, ctx: OnMergeContext) -> None:
        """Merge the nested trigger's state."""
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: W, ctx: TriggerContext) -> None:
        """Clear the nested trigger."""
        self.nested_trigger.clear(window, ctx)

    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger!r})"


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result is TriggerResult.FIRE else result
