"""Window assigners: assign elements to windows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Generic, TypeAlias, TypeVar

from penstock.windowing.triggers import NeverTrigger, Trigger
from penstock.windowing.windows import GlobalWindow, GlobalWindowSerializer, Window

T = TypeVar("T")
W = TypeVar("W", bound=Window)
W2 = TypeVar("W2", bound=Window)


class WindowAssignerContext(ABC):
    """The context of an assigner."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Return the processing time in epoch milliseconds."""

    @abstractmethod
    def get_runtime_context(self) -> Any:
        """Return the runtime context; its keyed state is that of the element's key."""

    @abstractmethod
    def get_partitioned_state(self, state_descriptor: Any) -> Any:
        """Return a state of the element's key, for keyed and non-keyed windows."""


_WindowAssignerContext = WindowAssignerContext


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns each element to zero or more windows."""

    WindowAssignerContext: TypeAlias = _WindowAssignerContext

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssignerContext
    ) -> Collection[W]:
        """Return the windows of an element."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """Return the trigger that is used by default."""

    def get_window_serializer(self) -> Any:
        """Return a serializer of the windows, or None: state pickles windows and does not need one."""
        return None

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows end by event time."""


class MergeCallback(ABC, Generic[W2]):
    """Receives the merges that `merge_windows` decides."""

    @abstractmethod
    def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
        """Merge `to_be_merged` into `merge_result`."""


_MergeCallback = MergeCallback


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows can merge, such as sessions."""

    MergeCallback: TypeAlias = _MergeCallback

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergeCallback[W]) -> None:
        """Decide which windows are merged."""


_GLOBAL = (GlobalWindow(),)


class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """Assigns all elements to one window. It never fires by itself: set a trigger."""

    @staticmethod
    def create() -> GlobalWindows[T]:
        """Return the assigner."""
        return GlobalWindows()

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        """Return the global window."""
        return _GLOBAL

    def get_default_trigger(self, env: Any) -> Trigger[T, GlobalWindow]:
        """Return a trigger that never fires."""
        return NeverTrigger()

    def get_window_serializer(self) -> GlobalWindowSerializer:
        """Return a serializer of the window."""
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        """Return False."""
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"
