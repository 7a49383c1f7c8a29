"""Window joins: rows of the same window and key, joined when the window ends."""

from __future__ import annotations

from typing import Any

from penstock.graph.operator_specs.columnar.common import column
from penstock.graph.operator_specs.columnar.joins import WindowJoinSpec
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.joins.bulk import join_frames
from penstock.runtime.columnar.joins.pairs import JoinPairs
from penstock.runtime.columnar.late_rows import timely_rows, without_late
from penstock.runtime.columnar.store.rows import only
from penstock.runtime.columnar.store.waiting_rows import WaitingRows
from penstock.runtime.columnar.windows import LocalTime
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.lateness import LateRecords


class WindowJoinOperator(StreamOperator):
    """Keeps the rows of both sides until the watermark passes the end of their window."""

    spec: WindowJoinSpec

    def open(self, context: OperatorContext) -> None:
        """Restore the stored rows from keyed state."""
        super().open(context)
        spec = self.spec
        self._pairing = JoinPairs(
            spec.left_types, spec.right_types, spec.condition, spec.zone, context.runtime_context
        )
        backend, groups = context.keyed_state, context.max_parallelism
        self._schemas = (self._pairing.left, self._pairing.right)
        self._waiting = tuple(
            WaitingRows(backend.table(name, namespaced=True), schema, keys, groups)
            for name, schema, keys in zip(
                ("left", "right"), self._schemas, (spec.left_keys, spec.right_keys), strict=True
            )
        )
        self._local = LocalTime(spec.zone)
        self._windows = (spec.left_window, spec.right_window)
        self._keys = (
            (*spec.left_keys, *spec.left_window),
            (*spec.right_keys, *spec.right_window),
        )
        null_safe = spec.null_safe or (False,) * len(spec.left_keys)
        self._null_safe = (*null_safe, True, True)
        self._late = LateRecords(context)

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Keep rows whose window has not ended."""
        frame = only(batch.frame, self._schemas[input_index])
        due = self._local.timers_of(frame[column(self._windows[input_index][1])])
        watermark = self.context.timers.watermark
        frame, due = without_late(frame, due, timely_rows(due, watermark), self._late, watermark)
        self._waiting[input_index].add(frame, due)

    def process_watermark(self, watermark: int) -> None:
        """Join the windows that have ended."""
        self.context.timers.advance_watermark(watermark, no_timer)
        firsts = [each.first for each in self._waiting if each.first is not None]
        if firsts and min(firsts) <= watermark:
            left, right = (each.take(watermark) for each in self._waiting)
            for frame in join_frames(
                self._pairing, self.spec.kind, left, right, self._keys, self._null_safe
            ):
                self.output.emit(ColumnBatch(frame))
        self.output.emit_watermark(watermark)

    def close(self) -> None:
        """Close the user functions that the condition calls."""
        self._pairing.close()

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        for each in self._waiting:
            each.save()
        return super().barrier()


def no_timer(time: int, key: object, namespace: object) -> None:
    """Ignore timers: this operator has none."""
