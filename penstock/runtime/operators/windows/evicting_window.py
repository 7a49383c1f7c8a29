"""Windows with an evictor: elements are kept with their timestamps, and evicted when a window is evaluated."""

from __future__ import annotations

from typing import Any

from penstock.common.user_types import Key, Record
from penstock.errors import CheckpointError, PenstockError
from penstock.graph.operator_specs import WindowSpec
from penstock.runtime.operators.base import OperatorContext
from penstock.runtime.operators.windows.merging_window import MergingWindowOperator
from penstock.runtime.operators.windows.window import WindowOperator, has_timestamps
from penstock.runtime.operators.windows.window_base import CONTENTS
from penstock.runtime.operators.windows.window_contents import (
    AggregatedContents,
    ElementContents,
    ReducedContents,
    WindowContents,
)
from penstock.runtime.records import MIN_WATERMARK
from penstock.runtime.state.table import MISSING
from penstock.windowing import MergingWindowAssigner, TriggerResult
from penstock.windowing.evictors import EvictorContext, TimestampedValue


class OperatorEvictorContext(EvictorContext):
    """The context of evictors."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    def get_current_processing_time(self) -> int:
        """Return the processing time in epoch milliseconds."""
        return self._context.clock()

    def get_current_watermark(self) -> int:
        """Return the operator's watermark."""
        watermark: int = self._context.timers.watermark
        return watermark

    def get_metric_group(self) -> object:
        """Return the operator's metrics."""
        return self._context.runtime_context.get_metrics_group()


class TimestampedContents:
    """All elements with their timestamps, reduced or aggregated when the window is evaluated.

    `timestamp` is that of the element being added.
    """

    def __init__(self, inner: WindowContents[Any]) -> None:
        self.inner = inner
        self.timestamp: int | None = None

    def first(self, value: object) -> list[TimestampedValue]:
        """Return a list of one."""
        return [TimestampedValue(value, self.timestamp)]

    def add(self, contents: list[TimestampedValue], value: Record) -> list[TimestampedValue]:
        """Append in place."""
        contents.append(TimestampedValue(value, self.timestamp))
        return contents

    def merge(
        self, contents: list[TimestampedValue], other: list[TimestampedValue]
    ) -> list[TimestampedValue]:
        """Return one list."""
        return [*contents, *other]

    def result(self, contents: list[TimestampedValue]) -> Any:
        """Return the reduced or aggregated value."""
        return self.inner.result(self._fold(contents))

    def elements(self, contents: list[TimestampedValue]) -> list[Any]:
        """Return the elements for the window function; none if there is nothing left to reduce."""
        if isinstance(self.inner, ElementContents):
            return [element.value for element in contents]
        if not contents and isinstance(self.inner, ReducedContents):
            return []
        return self.inner.elements(self._fold(contents))

    def _fold(self, contents: list[TimestampedValue]) -> object:
        inner = self.inner
        if not contents:
            assert isinstance(inner, AggregatedContents)
            return inner.function.create_accumulator()
        folded = inner.first(contents[0].value)
        for element in contents[1:]:
            folded = inner.add(folded, element.value)
        return folded


class _Evicting(WindowOperator):
    """Adds eviction to a window operator.

    When a window is evaluated, the evictor removes elements before and after the window function. The window keeps the
    remaining ones. A window that the evictor has emptied beforehand is still evaluated, without elements, except that there is
    no value to emit if elements are reduced.
    """

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        self.timestamped = TimestampedContents(self.contents)
        self.contents = self.timestamped

    def _check_contents(self) -> None:
        """Reject contents that were kept without timestamps."""
        if self.backend.has_entries(CONTENTS) and not has_timestamps(self.table):
            raise CheckpointError(
                "the restored windows were kept without an evictor, but the program's windows have one",
                hint="give the window operator another uid, or remove the evictor",
            )

    def _bind(self, context: OperatorContext) -> None:
        super()._bind(context)
        self.evictor_context = OperatorEvictorContext(context)

    def process_element(self, value: object, timestamp: int, key: object) -> None:
        """Add one record, with its timestamp, to its windows."""
        self.timestamped.timestamp = None if timestamp == MIN_WATERMARK else timestamp
        super().process_element(value, timestamp, key)

    def _apply(self, result: TriggerResult, key: object, window: object, entry: object) -> None:
        if result.is_fire():
            contents = self.table.get(entry, MISSING)
            if contents is not MISSING:
                self._evaluate(key, window, contents)
                backend = self.backend
                backend.current_key, backend.current_namespace = key, window
                if contents:
                    self.table.put(entry, contents)
                else:
                    self.table.remove(entry)
        if result.is_purge():
            self.table.remove(entry)

    def _evaluate(self, key: Key, window: Any, contents: list[TimestampedValue]) -> None:
        evictor = self.spec.evictor
        self._evict(evictor.evict_before, key, window, contents)
        reduces = self.spec.reduce_function is not None and self.spec.window_function is None
        if contents or not reduces:
            self.emit_window(key, window, contents)
        self._evict(evictor.evict_after, key, window, contents)

    def _evict(
        self, evict: Any, key: object, window: Any, contents: list[TimestampedValue]
    ) -> None:
        try:
            evict(contents, len(contents), window, self.evictor_context)
        except PenstockError:
            raise
        except Exception as error:
            raise self.window_error(error, key, window) from error


class EvictingWindowOperator(_Evicting):
    """Windows that do not merge, with an evictor."""


class EvictingMergingWindowOperator(_Evicting, MergingWindowOperator):
    """Merging windows with an evictor."""


def create_evicting_operator(spec: WindowSpec) -> WindowOperator:
    """Return the operator for a window with an evictor."""
    if isinstance(spec.assigner, MergingWindowAssigner):
        return EvictingMergingWindowOperator(spec)
    return EvictingWindowOperator(spec)
