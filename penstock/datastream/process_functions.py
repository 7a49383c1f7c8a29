"""Process functions: access to elements, timestamps, timers and side outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from penstock.common.user_types import Key, Record
from penstock.datastream.basic_functions import Function
from penstock.datastream.time_domain import TimeDomain
from penstock.datastream.timerservice import TimerService

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _default(method: _Method) -> _Method:
    """Mark a default implementation that does nothing."""
    method.is_default = True  # type: ignore[attr-defined]
    return method


class _Context(ABC):
    """The context of an element."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Return the timer service."""

    @abstractmethod
    def timestamp(self) -> int:
        """Return the timestamp of the element; None if it has none."""


class _KeyedContext(_Context):
    """A context with the current key."""

    @abstractmethod
    def get_current_key(self) -> Key:
        """Return the key of the element or timer."""


class _OnTimerContext(_KeyedContext):
    """The context of a timer."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Return the timer's time domain."""


class ProcessFunction(Function):
    """Processes the elements of a non-keyed stream.

    `process_element` may be a generator, return a list or return None. `yield tag, value` with an OutputTag goes to a
    side output.
    """

    class Context(_Context):
        """The context of `process_element`. Timers can be registered on keyed streams only."""

    @abstractmethod
    def process_element(self, value: Record, ctx: Context) -> Iterable[Any] | None:
        """Process one element."""


class KeyedProcessFunction(Function):
    """Processes the elements of a keyed stream, with keyed state and timers.

    >>> class CountPerKey(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         from penstock.common import Types
    ...         from penstock.datastream.state import ValueStateDescriptor
    ...
    ...         descriptor = ValueStateDescriptor("count", Types.LONG())
    ...         self.count = runtime_context.get_state(descriptor)
    ...
    ...     def process_element(self, value, ctx):
    ...         self.count.update((self.count.value() or 0) + 1)
    ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)
    ...
    ...     def on_timer(self, timestamp, ctx):
    ...         yield ctx.get_current_key(), self.count.value()
    """

    class Context(_KeyedContext):
        """The context of `process_element`."""

    class OnTimerContext(_OnTimerContext):
        """The context of `on_timer`."""

    @abstractmethod
    def process_element(self, value: Record, ctx: Context) -> Iterable[Any] | None:
        """Process one element."""

    @_default
    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Any] | None:
        """Handle a timer."""
        return None


class CoProcessFunction(Function):
    """Processes the elements of two connected streams."""

    class Context(_Context):
        """The context of `process_element1` and `process_element2`."""

    @abstractmethod
    def process_element1(self, value: Record, ctx: Context) -> Iterable[Any] | None:
        """Process an element of the first stream."""

    @abstractmethod
    def process_element2(self, value: Record, ctx: Context) -> Iterable[Any] | None:
        """Process an element of the second stream."""


class KeyedCoProcessFunction(Function):
    """Processes the elements of two connected keyed streams, with shared keyed state and timers."""

    class Context(_KeyedContext):
        """The context of `process_element1` and `process_element2`."""

    class OnTimerContext(_OnTimerContext):
        """The context of `on_timer`."""

    @abstractmethod
    def process_element1(self, value: Record, ctx: Context) -> Iterable[Any] | None:
        """Process an element of the first stream."""

    @abstractmethod
    def process_element2(self, value: Record, ctx: Context) -> Iterable[Any] | None:
        """Process an element of the second stream."""

    @_default
    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Any] | None:
        """Handle a timer."""
        return None


class BaseBroadcastProcessFunction(Function):
    """Base of the functions that process a stream and a broadcast stream."""

    class BaseContext(ABC):
        """The common context of both sides."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the timestamp of the element; None if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the current processing time in epoch milliseconds."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the operator's watermark."""

    class Context(BaseContext):
        """The context of the broadcast side."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: Any) -> Any:
            """Return broadcast state, for reading and writing."""

    class ReadOnlyContext(BaseContext):
        """The context of the other side."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: Any) -> Any:
            """Return broadcast state, for reading."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction):
    """Processes a non-keyed stream and a broadcast stream."""

    class Context(BaseBroadcastProcessFunction.Context):
        """The context of `process_broadcast_element`."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """The context of `process_element`."""

    @abstractmethod
    def process_element(self, value: Record, ctx: ReadOnlyContext) -> Iterable[Any] | None:
        """Process an element of the stream."""

    @abstractmethod
    def process_broadcast_element(self, value: Record, ctx: Context) -> Iterable[Any] | None:
        """Process an element of the broadcast stream, in every subtask."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction):
    """Processes a keyed stream and a broadcast stream."""

    class Context(BaseBroadcastProcessFunction.Context):
        """The context of `process_broadcast_element`."""

        @abstractmethod
        def apply_to_keyed_state(self, state_descriptor: object, function: object) -> None:
            """Call `function(key, state)` for every key that has this state."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """The context of `process_element`."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the timer service of the current key."""

        @abstractmethod
        def get_current_key(self) -> Key:
            """Return the key of the element or timer."""

    class OnTimerContext(ReadOnlyContext):
        """The context of `on_timer`."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the timer's time domain."""

    @abstractmethod
    def process_element(self, value: Record, ctx: ReadOnlyContext) -> Iterable[Any] | None:
        """Process an element of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(self, value: Record, ctx: Context) -> Iterable[Any] | None:
        """Process an element of the broadcast stream, in every subtask."""

    @_default
    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Any] | None:
        """Handle a timer."""
        return None
