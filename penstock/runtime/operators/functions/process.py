"""ProcessFunction and KeyedProcessFunction."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

from penstock.errors import UnsupportedOperationError
from penstock.graph.keys import for_user
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.emission import Collector
from penstock.runtime.operators.hooks import UsesProcessingTime
from penstock.runtime.records import MIN_WATERMARK, RowBatch
from penstock.runtime.time.timers import KeyedTimerService
from penstock.runtime.user_code import close_functions, open_function
from penstock.time.time_domain import TimeDomain


class ProcessContext:
    """The context of `process_element` and `on_timer`."""

    __slots__ = ("_backend", "_domain", "_timers", "_timestamp")

    def __init__(self, timers: Any, backend: Any) -> None:
        self._timers = timers
        self._backend = backend
        self._timestamp: int | None = None
        self._domain: TimeDomain | None = None

    def timer_service(self) -> object:
        """Return the timer service."""
        return self._timers

    def timestamp(self) -> int | None:
        """Return the timestamp of the record or the timer."""
        return self._timestamp

    def get_current_key(self) -> object:
        """Return the current key."""
        return for_user(self._backend.current_key)

    def time_domain(self) -> TimeDomain | None:
        """Return the time domain of the firing timer."""
        return self._domain


class ReadOnlyTimerService:
    """The timer service of a stream that is not keyed: clocks can be read, timers cannot be registered."""

    def __init__(self, operator: ProcessOperator) -> None:
        self._operator = operator

    def current_processing_time(self) -> int:
        """Return the processing time in epoch milliseconds."""
        return self._operator.context.clock()

    def current_watermark(self) -> int:
        """Return the operator's watermark."""
        return self._operator.watermark

    def _refuse(self, timestamp: int) -> None:
        raise UnsupportedOperationError(
            "timers need a keyed stream",
            hint="call key_by(...) before process(...) and use a KeyedProcessFunction",
        )

    register_event_time_timer = _refuse
    register_processing_time_timer = _refuse
    delete_event_time_timer = _refuse
    delete_processing_time_timer = _refuse


class ProcessOperator(StreamOperator):
    """Calls `process_element(value, ctx)` for each record."""

    watermark = MIN_WATERMARK

    def open(self, context: OperatorContext) -> None:
        """Open the user's function."""
        super().open(context)
        self.function = self.spec.function
        self.collector = Collector.of_function(context)
        self.user_context = self.create_user_context()
        self.watermark = context.operator_state.get("watermark", MIN_WATERMARK)
        open_function(self.function, context.runtime_context)

    def create_user_context(self) -> ProcessContext:
        """Create the context object that is handed to user code."""
        return ProcessContext(ReadOnlyTimerService(self), None)

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Process all records."""
        self.run_batch(self.function.process_element, self.user_context, batch)

    def run_batch(self, call: Callable[..., Any], context: Any, batch: RowBatch) -> None:
        """Call a method of the user's function for each record."""
        collector = self.collector
        gather = collector.gather
        for value, timestamp in zip(batch.values, batch.timestamps or repeat(None), strict=False):
            context._timestamp = timestamp
            try:
                full = gather(call(value, context), timestamp)
            except Exception as error:
                raise self.guard(error, value, known=True) from error
            if full:
                collector.flush()
        collector.flush()

    def process_watermark(self, watermark: int) -> None:
        """Advance event time."""
        self.watermark = watermark
        super().process_watermark(watermark)

    def barrier(self) -> list[Any]:
        """Store the watermark."""
        self.context.operator_state.put("watermark", self.watermark)
        return []

    def close(self) -> None:
        """Close the user's function."""
        close_functions([self.spec.function])


class KeyedProcessOperator(ProcessOperator, UsesProcessingTime):
    """The same with a current key, keyed state and timers."""

    def open(self, context: OperatorContext) -> None:
        """Open the user's function."""
        self.backend = context.keyed_state
        self.timers = context.timers
        self._service = KeyedTimerService(context.timers, context.clock)
        super().open(context)
        self.timers.watermark = self.watermark

    def create_user_context(self) -> ProcessContext:
        """Create the context object that is handed to user code."""
        return ProcessContext(self._service, self.backend)

    def run_batch(self, call: Callable[..., Any], context: Any, batch: RowBatch) -> None:
        """Call a method of the user's function for each record, with its key."""
        collector = self.collector
        gather, backend = collector.gather, self.backend
        context._domain = None
        for value, key, timestamp in zip(
            batch.values, batch.keys or (), batch.timestamps or repeat(None), strict=False
        ):
            backend.current_key = key
            context._timestamp = timestamp
            try:
                full = gather(call(value, context), timestamp)
            except Exception as error:
                raise self.guard(error, value, known=True) from error
            if full:
                collector.flush()
        collector.flush()

    def process_watermark(self, watermark: int) -> None:
        """Fire event-time timers, then forward the watermark."""
        self.watermark = watermark
        self.user_context._domain = TimeDomain.EVENT_TIME
        self.timers.advance_watermark(watermark, self._on_event_timer)
        self.collector.flush()
        self.output.emit_watermark(watermark)

    def advance_processing_time(self, now: int) -> None:
        """Fire processing-time timers."""
        self.user_context._domain = TimeDomain.PROCESSING_TIME
        self.timers.advance_processing_time(now, self._on_processing_timer)
        self.collector.flush()

    def next_wakeup(self) -> int | None:
        """Return the next processing-time timer."""
        wakeup: int | None = self.timers.processing.next_time()
        return wakeup

    def _on_event_timer(self, timestamp: int, key: object, namespace: object) -> None:
        self._fire(timestamp, key, timestamp)

    def _on_processing_timer(self, timestamp: int, key: object, namespace: object) -> None:
        # Results of a processing-time timer have no event timestamp, as in Flink.
        self._fire(timestamp, key, None)

    def _fire(self, timestamp: int, key: object, event_timestamp: int | None) -> None:
        self.backend.current_key = key
        self.user_context._timestamp = timestamp
        try:
            results = self.function.on_timer(timestamp, self.user_context)
            full = self.collector.gather(results, event_timestamp)
        except Exception as error:
            wrapped = self.guard(error)
            wrapped.detail = f"{wrapped.detail}, timer {timestamp} of key {key!r}"
            raise wrapped from error
        if full:
            self.collector.flush()
