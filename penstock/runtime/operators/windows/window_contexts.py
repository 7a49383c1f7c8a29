"""Contexts of assigners, triggers and window functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.common.user_types import Key
from penstock.errors import InvalidProgramError, UnsupportedOperationError
from penstock.runtime.operators.base import OperatorContext
from penstock.windowing.assigners import WindowAssignerContext
from penstock.windowing.triggers import OnMergeContext


class AssignerContext(WindowAssignerContext):
    """The context of `assign_windows`."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    def get_current_processing_time(self) -> int:
        """Return the processing time in epoch milliseconds."""
        return self._context.clock()

    def get_runtime_context(self) -> object:
        """Return the runtime context."""
        return self._context.runtime_context

    def get_partitioned_state(self, state_descriptor: object) -> Any:
        """Return a state of the current key."""
        return self._context.keyed_state.get_state(state_descriptor)


class OperatorTriggerContext(OnMergeContext):
    """The context of triggers; uses the backend's current key and namespace."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self._backend = context.keyed_state
        self._timers = context.timers
        self._merged: Iterable[Any] = ()

    def get_current_processing_time(self) -> int:
        """Return the processing time in epoch milliseconds."""
        return self._context.clock()

    def get_current_watermark(self) -> int:
        """Return the operator's watermark."""
        watermark: int = self._timers.watermark
        return watermark

    def get_metric_group(self) -> object:
        """Return the operator's metrics."""
        return self._context.runtime_context.get_metrics_group()

    def register_processing_time_timer(self, time: int) -> None:
        """Call `on_processing_time` when the wall clock reaches `time`."""
        backend = self._backend
        self._timers.processing.register(time, backend.current_key, backend.current_namespace)

    def register_event_time_timer(self, time: int) -> None:
        """Call `on_event_time` when the watermark reaches `time`."""
        backend = self._backend
        self._timers.event.register(time, backend.current_key, backend.current_namespace)

    def delete_processing_time_timer(self, time: int) -> None:
        """Delete a processing-time timer."""
        backend = self._backend
        self._timers.processing.delete(time, backend.current_key, backend.current_namespace)

    def delete_event_time_timer(self, time: int) -> None:
        """Delete an event-time timer."""
        backend = self._backend
        self._timers.event.delete(time, backend.current_key, backend.current_namespace)

    def get_partitioned_state(self, state_descriptor: object) -> Any:
        """Return the state of the current key and window."""
        return self._backend.get_state(state_descriptor, namespaced=True)

    def set_merged(self, windows: Iterable[Any]) -> None:
        """Set the windows that the current one was merged from."""
        self._merged = windows

    def merge_partitioned_state(self, state_descriptor: Any) -> None:
        """Merge the state of the merged windows into that of the current one."""
        kind = state_descriptor.kind
        if kind not in {"reducing", "list", "aggregating"}:
            raise UnsupportedOperationError(
                f"{kind} state '{state_descriptor.name}' of a trigger cannot be merged",
                hint="use a reducing, list or aggregating state",
            )
        state = self.get_partitioned_state(state_descriptor)
        backend = self._backend
        target = backend.current_namespace
        for window in self._merged:
            if window == target:
                continue
            if kind == "aggregating":
                _merge_accumulators(state, backend.current_key, window, target, state_descriptor)
                continue
            backend.current_namespace = window
            found = list(state.get()) if kind == "list" else state.get()
            state.clear()
            backend.current_namespace = target
            if kind == "list":
                state.add_all(found)
            elif found is not None:
                state.add(found)


def _merge_accumulators(state: Any, key: Key, source: object, target: Any, descriptor: Any) -> None:
    if descriptor.ttl_config is not None:
        raise UnsupportedOperationError(
            f"aggregating state '{descriptor.name}' of a trigger cannot be merged if it has a TTL"
        )
    table = state.table
    found = table.get((key, source))
    if found is None:
        return
    table.remove((key, source))
    present = table.get((key, target))
    table.put(
        (key, target), found if present is None else descriptor.agg_function.merge(present, found)
    )


class StateStore:
    """Keyed state by descriptor: of the key (`global_state`), or of the key and window (`window_state`)."""

    __slots__ = ("_backend", "_namespaced")

    def __init__(self, backend: Any, *, namespaced: bool) -> None:
        self._backend = backend
        self._namespaced = namespaced

    def get_state(self, state_descriptor: object) -> object:
        """Return the state of a descriptor."""
        return self._backend.get_state(state_descriptor, namespaced=self._namespaced)

    get_list_state = get_state
    get_map_state = get_state
    get_reducing_state = get_state
    get_aggregating_state = get_state


class NoWindowStateStore:
    """Rejects per-window state of merging windows."""

    def get_state(self, state_descriptor: Any) -> object:
        """Raise an error."""
        raise InvalidProgramError(
            f"window state '{state_descriptor.name}' is not supported in merging windows",
            detail="a session's window changes whenever sessions merge",
            hint="use context.global_state()",
        )

    get_list_state = get_state
    get_map_state = get_state
    get_reducing_state = get_state
    get_aggregating_state = get_state


class WindowContext:
    """The context of window functions. One object is reused for all windows."""

    __slots__ = ("_context", "_global_state", "_window_state", "current")

    def __init__(self, context: OperatorContext, *, merging: bool) -> None:
        self._context = context
        self.current: Any = None
        self._global_state = StateStore(context.keyed_state, namespaced=False)
        self._window_state: Any = (
            NoWindowStateStore() if merging else StateStore(context.keyed_state, namespaced=True)
        )

    def window(self) -> Any:
        """Return the window."""
        return self.current

    def current_processing_time(self) -> int:
        """Return the processing time in epoch milliseconds."""
        return self._context.clock()

    def current_watermark(self) -> int:
        """Return the operator's watermark."""
        watermark: int = self._context.timers.watermark
        return watermark

    def window_state(self) -> object:
        """Return the state store of this key and window."""
        return self._window_state

    def global_state(self) -> object:
        """Return the state store of this key."""
        return self._global_state
