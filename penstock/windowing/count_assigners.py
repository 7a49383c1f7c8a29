"""Count windows as assigners: a counter per key numbers the windows."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from penstock.windowing._checks import positive
from penstock.windowing._state import InternalDescriptor
from penstock.windowing.assigners import WindowAssigner, WindowAssignerContext
from penstock.windowing.element_triggers import CountTrigger, PartialCountTrigger
from penstock.windowing.triggers import PurgingTrigger, Trigger
from penstock.windowing.windows import CountWindow, CountWindowSerializer

T = TypeVar("T")

_TUMBLING = InternalDescriptor("tumble-count-assigner", "value")
_SLIDING = InternalDescriptor("slide-count-assigner", "value")


class _CountWindows(WindowAssigner[T, CountWindow]):
    def get_window_serializer(self) -> CountWindowSerializer:
        """Return a serializer of count windows."""
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        """Return False."""
        return False


class CountTumblingWindowAssigner(_CountWindows[T]):
    """Consecutive windows of `window_size` elements of a key; only full windows are evaluated."""

    def __init__(self, window_size: int) -> None:
        self.window_size = positive(window_size, "size of a count window")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner[T]:
        """Return the assigner for a size."""
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssignerContext
    ) -> Collection[CountWindow]:
        """Count the element, and return its window."""
        return (CountWindow(_next_position(_TUMBLING, context) // self.window_size),)

    def get_default_trigger(self, env: Any) -> Trigger[T, CountWindow]:
        """Return a trigger that fires and purges full windows."""
        return PurgingTrigger(CountTrigger(self.window_size))

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self.window_size})"


class CountSlidingWindowAssigner(_CountWindows[T]):
    """Windows of `window_size` elements of a key, a new one every `window_slide` elements.

    By default windows begin every `window_slide` elements and only full ones are evaluated, as in PyFlink. With
    `partial`, every
    `window_slide` elements the last `window_size` of them are evaluated, or as many as there are, as in Flink's Java
    `countWindow(size, slide)`. On 1 3 5, size 2 and slide 1: (1 3) (3 5), or with `partial` (1) (1 3) (3 5).
    """

    def __init__(self, window_size: int, window_slide: int, partial: bool = False) -> None:
        self.window_size = positive(window_size, "size of a count window")
        self.window_slide = positive(window_slide, "slide of a count window")
        self.partial = partial

    @staticmethod
    def of(
        window_size: int, window_slide: int, partial: bool = False
    ) -> CountSlidingWindowAssigner[T]:
        """Return the assigner for a size and a slide."""
        return CountSlidingWindowAssigner(window_size, window_slide, partial)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssignerContext
    ) -> Collection[CountWindow]:
        """Count the element, and return its windows."""
        position = _next_position(_SLIDING, context)
        size, slide = self.window_size, self.window_slide
        if self.partial:  # window n ends with element (n + 1) * slide - 1
            first, last = position // slide, (position + size) // slide - 1
        else:  # window n begins with element n * slide
            first, last = max(0, (position - size) // slide + 1), position // slide
        return [CountWindow(number) for number in range(last, first - 1, -1)]

    def get_default_trigger(self, env: Any) -> Trigger[T, CountWindow]:
        """Return a trigger that fires and purges complete windows."""
        if self.partial:
            return PurgingTrigger(PartialCountTrigger(self.window_size, self.window_slide))
        return PurgingTrigger(CountTrigger(self.window_size))

    def __repr__(self) -> str:
        partial = ", partial=True" if self.partial else ""
        return f"CountSlidingWindowAssigner({self.window_size}, {self.window_slide}{partial})"


def _next_position(descriptor: InternalDescriptor, context: WindowAssignerContext) -> int:
    """Return the number of earlier elements of the key, and increment it."""
    state = context.get_partitioned_state(descriptor)
    position: int = state.value() or 0
    state.update(position + 1)
    return position
