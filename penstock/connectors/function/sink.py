"""A sink that calls a Python function for every record."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

from penstock.common.user_types import StateValue
from penstock.connectors.base.sink import Sink, SinkWriter, WriterContext
from penstock.connectors.filesystem.buckets import BucketContext
from penstock.errors import ArgumentTypeError


class SinkContext(BucketContext):
    """The context of a sink function: `timestamp()`, `current_watermark()`, `current_processing_time()`."""


class FunctionSink(Sink):
    """Calls `function(value)` or `function(value, context)` for every record, in the task.

    An object with `invoke(value, context)` may also have `open(context)`, called once with the WriterContext before the first
    record; `flush()`, called at every checkpoint with new records; and `close()`. Delivery is at least once: after a failure,
    records since the last checkpoint are written again. Write a `Sink` with a committer for exactly-once delivery.
    """

    def __init__(self, function: Any) -> None:
        invoke = getattr(function, "invoke", function)
        if not callable(invoke):
            raise ArgumentTypeError(
                "the sink function is not callable",
                detail=f"got {function!r}",
                hint="pass a function of the record, or an object with an invoke method",
            )
        self.function = function
        self.takes_context = _count_parameters(invoke) >= 2

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Open the function of one subtask."""
        return _FunctionWriter(self, context)


class _FunctionWriter(SinkWriter):
    def __init__(self, sink: FunctionSink, context: WriterContext) -> None:
        self._function = sink.function
        self._invoke: Callable[..., Any] = getattr(sink.function, "invoke", sink.function)
        self._takes_context = sink.takes_context
        opener = getattr(sink.function, "open", None)
        if callable(opener):
            opener(context)

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        invoke = self._invoke
        if not self._takes_context:
            for value in values:
                invoke(value)
            return
        now = int(time.time() * 1000)
        times = timestamps if timestamps is not None else [None] * len(values)
        for value, timestamp in zip(values, times, strict=True):
            invoke(value, SinkContext(timestamp, watermark, now))

    def prepare_commit(self) -> list[Any]:
        flush = getattr(self._function, "flush", None)
        if callable(flush):
            flush()
        return []

    def close(self) -> None:
        closer = getattr(self._function, "close", None)
        if callable(closer):
            closer()


def _count_parameters(function: Callable[..., Any]) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in such as print
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(1 for p in parameters if p.kind in kinds and p.default is p.empty)
