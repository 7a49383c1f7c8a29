"""Base class of window operators: opening, evaluating a window, late elements, errors."""

from __future__ import annotations

from typing import Any

from penstock.common.user_types import Key, Record
from penstock.errors import PenstockError
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import WindowSpec, windows
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.emission import Collector
from penstock.runtime.operators.lateness import LateRecords
from penstock.runtime.operators.windows.window_contents import create_contents
from penstock.runtime.operators.windows.window_contexts import WindowContext
from penstock.runtime.records import MIN_WATERMARK
from penstock.runtime.state.panes import PANE_PREFIX
from penstock.runtime.user_code import close_functions, open_function

CONTENTS = windows.CONTENTS.name
PANES = f"{PANE_PREFIX}{CONTENTS}"


class WindowOperatorBase(StreamOperator):
    """A window operator without the bookkeeping of windows."""

    merging = False

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        self.contents = create_contents(spec)
        self.trigger = spec.trigger or spec.assigner.get_default_trigger(None)

    def open(self, context: OperatorContext) -> None:
        """Open the user's functions."""
        super().open(context)
        self._bind(context)
        for function in self._functions():
            open_function(function, context.runtime_context)

    def _bind(self, context: OperatorContext) -> None:
        self.backend = context.keyed_state
        self.timers = context.timers
        self.collector = Collector.of_function(context)
        self.window_context = WindowContext(context, merging=self.merging)
        self._late = LateRecords(context)

    def _functions(self) -> list[Any]:
        spec = self.spec
        functions = (spec.reduce_function, spec.aggregate_function, spec.window_function)
        return [function for function in functions if function is not None]

    def emit_window(self, key: Key, window: Any, contents: Any) -> None:
        """Evaluate a window and collect its results."""
        timestamp = window.max_timestamp()
        function = self.spec.window_function
        if function is None:
            try:
                result = self.contents.result(contents)
            except Exception as error:
                raise self.window_error(error, key, window) from error
            self.collector.add(result, timestamp)
            return
        backend = self.backend
        backend.current_key = key
        backend.current_namespace = self.window_context.current = window
        try:
            results = function.process(key, self.window_context, self.contents.elements(contents))
            self.collector.check(results)
            # consumed completely here, so that an error of a downstream operator is not attributed to this function
            results = None if results is None else list(results)
        except PenstockError:
            raise
        except Exception as error:
            raise self.window_error(error, key, window) from error
        self.collector.add_all(results, timestamp)

    def clear_function(self, key: Key, window: Any) -> None:
        """Let the window function clear its state of a window that is cleared."""
        clear = getattr(self.spec.window_function, "clear", None)
        if clear is None:
            return
        backend = self.backend
        backend.current_key = key
        backend.current_namespace = self.window_context.current = window
        try:
            clear(self.window_context)
        except Exception as error:
            raise self.window_error(error, key, window) from error

    def take_late(self, value: Record, timestamp: int) -> None:
        """Send a late element to its side output, or count it."""
        if self.spec.late_tag is not None:
            known = None if timestamp == MIN_WATERMARK else timestamp
            self.collector.add_side(self.spec.late_tag, value, known)
        else:
            self._late.drop((timestamp,), self.timers.watermark)

    def window_error(self, error: Exception, key: object, window: object) -> UserCodeError:
        """Wrap an exception of user code for a window."""
        wrapped = self.guard(error)
        wrapped.detail = f"{wrapped.detail}, key {key!r}, {window!r}"
        return wrapped

    def close(self) -> None:
        """Close the user's functions."""
        close_functions(self._functions())
