"""Triggers that fire by elements: by their number, or by a large enough change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.errors import ArgumentTypeError
from penstock.windowing._checks import positive
from penstock.windowing._state import InternalDescriptor, add
from penstock.windowing.triggers import BaseTrigger, OnMergeContext, TriggerContext, TriggerResult
from penstock.windowing.windows import CountWindow, Window

T = TypeVar("T")
W = TypeVar("W", bound=Window)

_COUNT = InternalDescriptor("trigger-count", "reducing", add)
_LAST_ELEMENT = InternalDescriptor("last-element", "value")


class CountTrigger(BaseTrigger[T, W]):
    """Fires after every `window_size` elements of a window."""

    def __init__(self, window_size: int) -> None:
        self.window_size = positive(window_size, "count of a count trigger")

    @staticmethod
    def of(window_size: int) -> CountTrigger[T, W]:
        """Return a trigger that fires after `window_size` elements."""
        return CountTrigger(window_size)

    def on_element(
        self, element: T, timestamp: int, window: W, ctx: TriggerContext
    ) -> TriggerResult:
        """Count the element, and fire when there are enough."""
        count = ctx.get_partitioned_state(_COUNT)
        count.add(1)
        if count.get() < self._limit(window):
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def _limit(self, window: W) -> int:
        return self.window_size

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: W, ctx: OnMergeContext) -> None:
        """Add up the counts."""
        ctx.merge_partitioned_state(_COUNT)

    def clear(self, window: W, ctx: TriggerContext) -> None:
        """Delete the count."""
        ctx.get_partitioned_state(_COUNT).clear()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.window_size})"


class PartialCountTrigger(CountTrigger[T, CountWindow]):
    """Fires when a sliding count window is complete; the first windows have fewer than `window_size` elements."""

    def __init__(self, window_size: int, window_slide: int) -> None:
        super().__init__(window_size)
        self.window_slide = positive(window_slide, "slide of a count window")

    def _limit(self, window: CountWindow) -> int:
        return min(self.window_size, (window.id + 1) * self.window_slide)


class DeltaTrigger(BaseTrigger[T, W]):
    """Fires when an element differs by more than `threshold` from the last one that fired.

    `delta_function(old, new)` is a callable or has a method `get_delta`. The first element of a window never fires.
    """

    def __init__(self, threshold: float, delta_function: Any) -> None:
        get_delta = getattr(delta_function, "get_delta", delta_function)
        if not callable(get_delta):
            raise ArgumentTypeError(
                f"a delta function must be callable, got {type(delta_function).__name__}",
                hint="pass a function of the old and the new element that returns a number",
            )
        self.threshold = threshold
        self.delta_function = delta_function

    @staticmethod
    def of(threshold: float, delta_function: Any) -> DeltaTrigger[T, W]:
        """Return a trigger for this threshold."""
        return DeltaTrigger(threshold, delta_function)

    def on_element(
        self, element: T, timestamp: int, window: W, ctx: TriggerContext
    ) -> TriggerResult:
        """Fire when the element is far enough from the last one."""
        last = ctx.get_partitioned_state(_LAST_ELEMENT)
        before = last.value()  # wrapped, because None is an element too
        if before is None:
            last.update((element,))
            return TriggerResult.CONTINUE
        get_delta: Callable[[T, T], float] = getattr(
            self.delta_function, "get_delta", self.delta_function
        )
        if get_delta(before[0], element) <= self.threshold:
            return TriggerResult.CONTINUE
        last.update((element,))
        return TriggerResult.FIRE

    def clear(self, window: W, ctx: TriggerContext) -> None:
        """Clear the last element."""
        ctx.get_partitioned_state(_LAST_ELEMENT).clear()

    def __repr__(self) -> str:
        return f"DeltaTrigger({self.threshold}, {self.delta_function!r})"
