"""The window operator: assigner, trigger, contents, allowed lateness, clean-up."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import repeat
from typing import Any

from penstock.common.user_types import Record
from penstock.errors import CheckpointError, MissingTimestampError, PenstockError
from penstock.graph.operator_specs import WindowSpec, windows
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.hooks import UsesProcessingTime
from penstock.runtime.operators.lateness import cleanup_time, is_window_late
from penstock.runtime.operators.missing_timestamps import missing_timestamp
from penstock.runtime.operators.windows.window_base import CONTENTS, PANES, WindowOperatorBase
from penstock.runtime.operators.windows.window_contexts import (
    AssignerContext,
    OperatorTriggerContext,
)
from penstock.runtime.records import MAX_WATERMARK, MIN_WATERMARK, RowBatch
from penstock.runtime.state.table import MISSING
from penstock.windowing import (
    EventTimeTrigger,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    TimestampedValue,
    TriggerResult,
    TumblingEventTimeWindows,
)

_CONTINUE = TriggerResult.CONTINUE
MERGING_SET = windows.MERGING_SET.name


class WindowOperator(WindowOperatorBase, UsesProcessingTime):
    """Windows of any non-merging assigner, with any trigger.

    The contents of a window are the entry `(key, window)` of the table `window-contents`. An event-time window is late when
    `max_timestamp + allowed lateness <= watermark`; a timer at that time clears all its state.
    """

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        self.assigner = spec.assigner
        self.event_time: bool = spec.assigner.is_event_time()
        self.lateness = spec.allowed_lateness if self.event_time else 0
        # Before its window has ended, this trigger only sets the window's timer: done without calling it, which saves a
        # third of the cost of an element.
        self._quiet_trigger = type(self.trigger) is EventTimeTrigger

    def open(self, context: OperatorContext) -> None:
        """Find the contents, including those kept by the time window operator."""
        super().open(context)
        self._refuse_other_kind()
        self._adopt_panes()
        self._check_contents()

    def _bind(self, context: OperatorContext) -> None:
        super()._bind(context)
        self.table = context.keyed_state.table(CONTENTS, namespaced=True)
        self.assigner_context = AssignerContext(context)
        self.trigger_context = OperatorTriggerContext(context)
        self._cleanup_timers = (
            context.timers.event if self.event_time else context.timers.processing
        )

    def _refuse_other_kind(self) -> None:
        if self.backend.has_entries(MERGING_SET):
            raise CheckpointError(
                "the restored state has merging windows, but the program's windows do not merge",
                hint="give the window operator another uid, or use session windows again",
            )

    def _check_contents(self) -> None:
        """Reject contents that were kept for an evictor."""
        if has_timestamps(self.table):
            raise CheckpointError(
                "the restored windows were kept with an evictor, but the program's windows have none",
                hint="give the window operator another uid, or keep the evictor",
            )

    def _adopt_panes(self) -> None:
        """Take over windows that were kept without timers, before the program used a trigger or lateness."""
        if not self.backend.has_entries(PANES):
            return
        panes = self.backend.table(PANES, namespaced=True)
        for window in panes.namespaces():
            for key, contents in panes.pop_pane(window).items():
                self.table.put((key, window), contents)
                self.timers.event.register(window.max_timestamp(), key, window)
                self._register_cleanup(key, window)

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Add records to their windows and call the trigger."""
        values = batch.values
        keys: Any = batch.keys if self.spec.keyed else repeat(None)
        take = self.process_element
        for value, timestamp, key in zip(
            values, batch.timestamps or repeat(None), keys, strict=False
        ):
            take(value, MIN_WATERMARK if timestamp is None else timestamp, key)
        self.collector.flush()

    def process_element(self, value: object, timestamp: int, key: object) -> None:
        """Add one record to its windows."""
        backend, table = self.backend, self.table
        watermark = self.timers.watermark
        backend.current_key = key
        skipped = True
        for window in self.assign(value, timestamp):
            if self.event_time and self.is_late(window, watermark):
                continue
            skipped = False
            entry = (key, window)
            contents = table.get(entry, MISSING)
            self.add(entry, contents, value)
            if (
                contents is not MISSING
                and self._quiet_trigger
                and window.max_timestamp() > watermark
            ):
                self.timers.event.register(window.max_timestamp(), key, window)
            else:
                self.ask_trigger(value, timestamp, key, window, entry)
            self._register_cleanup(key, window)
        if skipped:
            self.take_skipped(value, timestamp)

    def take_skipped(self, value: object, timestamp: int) -> None:
        """Handle a record that was added to no window: it is late unless its time is still to come."""
        if self.event_time and is_window_late(timestamp, self.lateness, self.timers.watermark):
            self.take_late(value, timestamp)

    def assign(self, value: object, timestamp: int) -> Collection[Any]:
        """Return the windows of a record."""
        try:
            windows: Collection[Any] = self.assigner.assign_windows(
                value, timestamp, self.assigner_context
            )
        except MissingTimestampError:
            raise missing_timestamp(self.context, value) from None
        except PenstockError:
            raise
        except Exception as error:
            raise self.guard(error, value, known=True) from error
        return windows

    def add(self, entry: Any, contents: Any, value: Record) -> None:
        """Add a record to the contents of a window."""
        try:
            if contents is MISSING:
                contents = self.contents.first(value)
            else:
                contents = self.contents.add(contents, value)
        except Exception as error:
            raise self.guard(error, value, known=True) from error
        self.table.put(entry, contents)

    def ask_trigger(
        self, value: object, timestamp: int, key: object, window: object, entry: object
    ) -> None:
        """Call the trigger for a window that received a record."""
        self.backend.current_namespace = window
        try:
            result = self.trigger.on_element(value, timestamp, window, self.trigger_context)
        except Exception as error:
            raise self.guard(error, value, known=True) from error
        if result is not _CONTINUE:
            self._apply(result, key, window, entry)

    def _apply(self, result: TriggerResult, key: object, window: object, entry: object) -> None:
        if result.is_fire():
            contents = self.table.get(entry, MISSING)
            if contents is not MISSING:
                self.emit_window(key, window, contents)
                backend = self.backend
                backend.current_key, backend.current_namespace = key, window
        if result.is_purge():
            self.table.remove(entry)

    def is_late(self, window: Any, watermark: int) -> bool:
        """Whether a window takes no more records."""
        return is_window_late(window.max_timestamp(), self.lateness, watermark)

    def cleanup_time(self, window: Any) -> int:
        """Return when a window's contents, trigger state and timers are cleared."""
        return cleanup_time(window.max_timestamp(), self.lateness)

    def _register_cleanup(self, key: object, window: object) -> None:
        time = self.cleanup_time(window)
        if time != MAX_WATERMARK:  # no need to clean up at the end of time
            self._cleanup_timers.register(time, key, window)

    def process_watermark(self, watermark: int) -> None:
        """Fire windows that are due, then forward the watermark."""
        self.timers.advance_watermark(watermark, self._on_event_time)
        self.collector.flush()
        self.output.emit_watermark(watermark)

    def next_wakeup(self) -> int | None:
        """Return the time of the next processing-time timer."""
        wakeup: int | None = self.timers.processing.next_time()
        return wakeup

    def advance_processing_time(self, now: int) -> None:
        """Fire processing-time timers that are due."""
        self.timers.advance_processing_time(now, self._on_processing_time)
        self.collector.flush()

    def _on_event_time(self, time: int, key: object, window: object) -> None:
        self._on_timer(time, key, window, self.trigger.on_event_time, cleans_up=self.event_time)

    def _on_processing_time(self, time: int, key: object, window: object) -> None:
        self._on_timer(
            time, key, window, self.trigger.on_processing_time, cleans_up=not self.event_time
        )

    def _on_timer(
        self,
        time: int,
        key: object,
        window: object,
        decide: Callable[[int, Any, Any], TriggerResult],
        *,
        cleans_up: bool,
    ) -> None:
        entry = self._entry(key, window)
        if entry is None:
            return
        backend = self.backend
        backend.current_key, backend.current_namespace = key, window
        try:
            result = decide(time, window, self.trigger_context)
        except Exception as error:
            raise self.window_error(error, key, window) from error
        if result is not _CONTINUE:
            self._apply(result, key, window, entry)
        if cleans_up and time == self.cleanup_time(window):
            self._clear_all(key, window, entry)

    def _entry(self, key: object, window: object) -> tuple[Any, Any] | None:
        """Return the entry of a window's contents, or None if the window was cleared."""
        return (key, window)

    def _clear_all(self, key: object, window: object, entry: object) -> None:
        backend = self.backend
        self.table.remove(entry)
        backend.current_key, backend.current_namespace = key, window
        try:
            self.trigger.clear(window, self.trigger_context)
        except Exception as error:
            raise self.window_error(error, key, window) from error
        self.clear_function(key, window)

    def barrier(self) -> list[Any]:
        """Emit collected results."""
        self.collector.flush()
        return []


def has_timestamps(table: Any) -> bool:
    """Whether a table of window contents has elements with timestamps, as evictors need them."""
    _, contents = next(table.items(), (None, None))
    return isinstance(contents, list) and isinstance(next(iter(contents), None), TimestampedValue)


def create_window_operator(spec: WindowSpec) -> StreamOperator:
    """Return the operator for a window: the fast one for plain event-time windows, else the general one."""
    from penstock.runtime.operators.windows.evicting_window import create_evicting_operator
    from penstock.runtime.operators.windows.merging_window import MergingWindowOperator
    from penstock.runtime.operators.windows.time_window import TimeWindowOperator

    if spec.evictor is not None:
        return create_evicting_operator(spec)
    assigner = spec.assigner
    if isinstance(assigner, MergingWindowAssigner):
        return MergingWindowOperator(spec)
    trigger = spec.trigger
    if (
        type(assigner) in {TumblingEventTimeWindows, SlidingEventTimeWindows}
        and (trigger is None or type(trigger) is EventTimeTrigger)
        and spec.allowed_lateness == 0
    ):
        return TimeWindowOperator(spec)
    return WindowOperator(spec)
