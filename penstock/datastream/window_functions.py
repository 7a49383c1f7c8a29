"""Window functions, and the adapters between them and the window operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from penstock.common.user_types import Key
from penstock.datastream._adapter import FunctionAdapter
from penstock.datastream.basic_functions import Function
from penstock.datastream.runtime_context import KeyedStateStore

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Evaluates a window of a key: `apply(key, window, inputs)`."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Return or yield the results of the window."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Evaluates a non-keyed window: `apply(window, inputs)`."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Return or yield the results of the window."""


class _WindowContext(ABC, Generic[W2]):
    """The context of a window."""

    @abstractmethod
    def window(self) -> W2:
        """Return the window."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the current processing time in epoch milliseconds."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the operator's watermark."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """Return the state store of this key and window; clear it in `clear`."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """Return the state store of this key."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Evaluates a window of a key, with a context.

    >>> class Summary(ProcessWindowFunction):
    ...     def process(self, key, context, elements):
    ...         yield key, context.window().start, len(list(elements))
    """

    class Context(_WindowContext[W2]):
        """The context of `process` and `clear`."""

    @abstractmethod
    def process(self, key: KEY, context: Context[W], elements: Iterable[IN]) -> Iterable[OUT]:
        """Return or yield the results of the window."""

    def clear(self, context: Context[W]) -> None:
        """Clear the per-window state; called when the window is purged."""
        return


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Evaluates a non-keyed window, with a context."""

    class Context(_WindowContext[W2]):
        """The context of `process` and `clear`."""

    @abstractmethod
    def process(self, context: Context[W], elements: Iterable[IN]) -> Iterable[OUT]:
        """Return or yield the results of the window."""

    def clear(self, context: Context[W]) -> None:
        """Clear the per-window state; called when the window is purged."""
        return


class WindowFunctionAdapter(FunctionAdapter):
    """Adapts a window function to the interface that the window operator calls.

    That is `process(key, context, elements)`, with `open`, `close` and `clear`.
    """

    def clear(self, context: Any) -> None:
        """Call the user function's `clear`, if it has one."""
        clearer = getattr(self.function, "clear", None)
        if callable(clearer):
            clearer(context)

    def process(self, key: Key, context: Any, elements: Iterable[Any]) -> Any:
        """Evaluate the window."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.function!r})"


class ProcessAdapter(WindowFunctionAdapter):
    """Calls `process(key, context, elements)`, of a ProcessWindowFunction."""

    def process(self, key: Key, context: Any, elements: Iterable[Any]) -> Any:
        """Evaluate the window."""
        return self.function.process(key, context, elements)


class ProcessAllAdapter(WindowFunctionAdapter):
    """Calls `process(context, elements)`, of a ProcessAllWindowFunction."""

    def process(self, key: Key, context: Any, elements: Iterable[Any]) -> Any:
        """Evaluate the window."""
        return self.function.process(context, elements)


class ApplyAdapter(WindowFunctionAdapter):
    """Calls `apply(key, window, inputs)`, of a WindowFunction."""

    def process(self, key: Key, context: Any, elements: Iterable[Any]) -> Any:
        """Evaluate the window."""
        return self.function.apply(key, context.window(), elements)


class ApplyAllAdapter(WindowFunctionAdapter):
    """Calls `apply(window, inputs)`, of an AllWindowFunction."""

    def process(self, key: Key, context: Any, elements: Iterable[Any]) -> Any:
        """Evaluate the window."""
        return self.function.apply(context.window(), elements)
