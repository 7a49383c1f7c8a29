"""Evictors: remove elements from a window before or after it is evaluated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from penstock.common.user_types import Record
from penstock.errors import ArgumentTypeError
from penstock.time.durations import to_millis
from penstock.windowing._checks import positive
from penstock.windowing.windows import Window

T = TypeVar("T")
W = TypeVar("W", bound=Window)


class TimestampedValue(NamedTuple):
    """An element of a window with its timestamp; None if it has none."""

    value: Record
    timestamp: int | None = None

    def get_value(self) -> Record:
        """Return the element."""
        return self.value

    def get_timestamp(self) -> int | None:
        """Return the timestamp in epoch milliseconds, or None."""
        return self.timestamp

    def has_timestamp(self) -> bool:
        """Whether the element has a timestamp."""
        return self.timestamp is not None


class EvictorContext(ABC):
    """The context of an evictor."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Return the processing time in epoch milliseconds."""

    @abstractmethod
    def get_current_watermark(self) -> int:
        """Return the operator's watermark."""

    @abstractmethod
    def get_metric_group(self) -> Any:
        """Return the operator's metrics."""


_EvictorContext = EvictorContext


class Evictor(ABC, Generic[T, W]):
    """Removes elements from a window when it is evaluated. They are missing in later evaluations, too.

    `elements` is a list of TimestampedValue in order of arrival; an evictor removes from it in place.

    >>> class KeepEven(Evictor):
    ...     def evict_before(self, elements, size, window, evictor_context):
    ...         elements[:] = [element for element in elements if element.value % 2 == 0]
    ...
    ...     def evict_after(self, elements, size, window, evictor_context):
    ...         pass
    >>> elements = [TimestampedValue(number) for number in (1, 2, 4)]
    >>> KeepEven().evict_before(elements, 3, None, None)
    >>> [element.value for element in elements]
    [2, 4]
    """

    EvictorContext: TypeAlias = _EvictorContext

    @abstractmethod
    def evict_before(
        self,
        elements: list[TimestampedValue],
        size: int,
        window: W,
        evictor_context: EvictorContext,
    ) -> None:
        """Remove elements before the window function is called."""

    @abstractmethod
    def evict_after(
        self,
        elements: list[TimestampedValue],
        size: int,
        window: W,
        evictor_context: EvictorContext,
    ) -> None:
        """Remove elements after the window function was called."""


class _BuiltInEvictor(Evictor[T, W]):
    """Evicts by one rule, before or after the window function."""

    def __init__(self, do_evict_after: bool) -> None:
        self.do_evict_after = bool(do_evict_after)

    def evict_before(
        self,
        elements: list[TimestampedValue],
        size: int,
        window: W,
        evictor_context: EvictorContext,
    ) -> None:
        """Evict, unless configured to evict after the window function."""
        if not self.do_evict_after:
            self._evict(elements)

    def evict_after(
        self,
        elements: list[TimestampedValue],
        size: int,
        window: W,
        evictor_context: EvictorContext,
    ) -> None:
        """Evict, if configured to evict after the window function."""
        if self.do_evict_after:
            self._evict(elements)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        raise NotImplementedError


class CountEvictor(_BuiltInEvictor[T, W]):
    """Keeps the last `max_count` elements.

    >>> CountEvictor.of(10)
    CountEvictor(10)
    """

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self.max_count = positive(max_count, "count of a count evictor")

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor[T, W]:
        """Return an evictor that keeps the last `max_count` elements."""
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        del elements[: -self.max_count]

    def __repr__(self) -> str:
        return f"CountEvictor({self.max_count}{_after(self.do_evict_after)})"


class TimeEvictor(_BuiltInEvictor[T, W]):
    """Keeps the elements that are less than `window_size` older than the newest one.

    Elements without timestamps are all kept.
    """

    def __init__(self, window_size: Any, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self.window_size = to_millis(window_size, "the time of a time evictor", minimum=0)

    @staticmethod
    def of(window_size: Any, do_evict_after: bool = False) -> TimeEvictor[T, W]:
        """Return an evictor for a time (Time, Duration, timedelta or milliseconds)."""
        return TimeEvictor(window_size, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        # As in Flink, the first element determines whether the elements have timestamps.
        if not elements or elements[0].timestamp is None:
            return
        times = [element.timestamp for element in elements if element.timestamp is not None]
        cutoff = max(times) - self.window_size
        elements[:] = [
            element
            for element in elements
            if element.timestamp is not None and element.timestamp > cutoff
        ]

    def __repr__(self) -> str:
        return f"TimeEvictor({self.window_size}{_after(self.do_evict_after)})"


class DeltaEvictor(_BuiltInEvictor[T, W]):
    """Keeps the elements that differ by less than `threshold` from the last one.

    `delta_function(element, last)` is a callable or has a method `get_delta`.
    """

    def __init__(self, threshold: float, delta_function: Any, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        if isinstance(threshold, bool) or not isinstance(threshold, int | float):
            raise ArgumentTypeError(
                f"the threshold of a delta evictor must be a number, got {type(threshold).__name__}"
            )
        if not callable(getattr(delta_function, "get_delta", delta_function)):
            raise ArgumentTypeError(
                f"a delta function must be callable, got {type(delta_function).__name__}",
                hint="pass a function of two elements that returns a number",
            )
        self.threshold = threshold
        self.delta_function = delta_function

    @staticmethod
    def of(
        threshold: float, delta_function: Any, do_evict_after: bool = False
    ) -> DeltaEvictor[T, W]:
        """Return an evictor for a threshold."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if not elements:
            return
        get_delta: Callable[[Any, Any], float] = getattr(
            self.delta_function, "get_delta", self.delta_function
        )
        last = elements[-1].value
        elements[:] = [
            element for element in elements if get_delta(element.value, last) < self.threshold
        ]

    def __repr__(self) -> str:
        after = _after(self.do_evict_after)
        return f"DeltaEvictor({self.threshold}, {self.delta_function!r}{after})"


def _after(do_evict_after: bool) -> str:
    return ", do_evict_after=True" if do_evict_after else ""
