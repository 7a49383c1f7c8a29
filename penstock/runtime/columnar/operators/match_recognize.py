"""MATCH_RECOGNIZE: rows wait for their time, become events of the CEP engine, and matches become rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from penstock.common.user_types import Key
from penstock.graph.operator_specs.columnar.changes import MatchRecognizeSpec
from penstock.graph.operator_specs.columnar.common import column
from penstock.graph.operator_specs.patterns import RUNS
from penstock.runtime.cep.engine import Match
from penstock.runtime.cep.engine.runs import chain
from penstock.runtime.cep.pattern_engine import PatternEngine
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.dtypes import schema_of
from penstock.runtime.columnar.expressions import compile_expression
from penstock.runtime.columnar.keys import keys_of
from penstock.runtime.columnar.late_rows import timely_rows, without_late
from penstock.runtime.columnar.operators.window_join import no_timer
from penstock.runtime.columnar.ordering import Ordering
from penstock.runtime.columnar.patterns.leaves import (
    EventMaker,
    PatternLeaf,
    PatternLeaves,
    column_of,
    numbers_from,
)
from penstock.runtime.columnar.patterns.plan import Conditions, pattern_plan, variables_of
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.rows import only
from penstock.runtime.columnar.store.waiting_rows import WaitingRows
from penstock.runtime.columnar.times import millis_array
from penstock.runtime.columnar.user_functions import open_functions
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.hooks import UsesProcessingTime
from penstock.runtime.operators.lateness import LateRecords
from penstock.runtime.user_code import close_functions
from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Rex,
    Symbol,
)
from penstock.sql.types import NullType


class MatchRecognizeOperator(StreamOperator, UsesProcessingTime):
    """Finds the matches of a row pattern; of each one row leaves: the partition's columns, then the measures."""

    spec: MatchRecognizeSpec

    def open(self, context: OperatorContext) -> None:
        """Compile the pattern; find the rows and partial matches that were restored."""
        super().open(context)
        spec = self.spec
        self._schema = schema_of(spec.input_types)
        expressions = [rex for _, rex in (*spec.definitions, *spec.measures)]
        self._functions = open_functions(expressions, context.runtime_context)
        variables = variables_of(spec.pattern)
        rowtime = InputRef(spec.input_types[spec.order[0].index], spec.order[0].index)
        self._leaves = PatternLeaves(variables, dict(spec.subsets), spec.zone, rowtime)
        conditions = Conditions(self._leaves, spec.definitions)
        self._measures: list[tuple[pl.Expr, list[PatternLeaf]]] = []
        for rex in (*(_last_of(spec, index) for index in spec.keys), *_rexes(spec)):
            rest, leaves = self._leaves.split(rex)
            self._measures.append((compile_expression(rest, spec.zone), leaves))
        tests = conditions.compiled()
        self._maker = EventMaker(self._leaves.rows, conditions.flags, spec.zone)
        self._engine = PatternEngine(self, pattern_plan(spec, tests))
        self._engine.nfa.clock = context.clock
        self._found: list[list[list[Any]]] = [[[] for _ in each] for _, each in self._measures]
        self._matches = 0
        self._ordering = Ordering(spec.order if spec.rowtime else spec.order[1:])
        self._next = 0
        for key, state in context.keyed_state.table(RUNS.name).items():
            self._engine.restore(key, state)
            for run in (*state.runs, *state.completed):
                self._next = max(self._next, *(link[2][0] + 1 for link in chain(run.link)))
        self._waiting = WaitingRows(
            context.keyed_state.table("waiting", namespaced=True),
            self._schema,
            spec.keys,
            context.max_parallelism,
        )
        self._late = LateRecords(context)

    # Rows

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Buffer rows until the watermark, or process them at once in processing time."""
        frame = only(batch.frame, self._schema)
        if not self.spec.rowtime:
            self._run(frame, np.full(frame.height, self.context.clock(), np.int64))
            self._flush()
            return
        times = self._times(frame)
        watermark = self.context.timers.watermark
        timely = timely_rows(times, watermark)
        frame, times = without_late(frame, times, timely, self._late, watermark)
        self._waiting.add(frame, times)

    def _times(self, frame: pl.DataFrame) -> Numbers:
        return millis_array(frame[column(self.spec.order[0].index)])

    def _run(self, frame: pl.DataFrame, times: Numbers) -> None:
        if not frame.height:
            return
        if self._ordering.order:
            order = self._ordering.sorted(frame, np.zeros(frame.height, np.int64))
            frame, times = frame[pl.Series(order, dtype=pl.UInt32)], times[order]
        numbers = numbers_from(self._next, frame.height)
        self._next += frame.height
        events = self._maker.events(frame, numbers)
        self._engine.run(events, times.tolist(), keys_of(frame, self.spec.keys))

    # Time

    def process_watermark(self, watermark: int) -> None:
        """Process the rows up to the watermark, and drop partial matches that have timed out."""
        self.context.timers.advance_watermark(watermark, no_timer)
        if self.spec.rowtime:
            ready = self._waiting.take(watermark)
            if ready.height:
                self._run(ready, self._times(ready))
            self._engine.expire(watermark)
            self._flush()
        self.output.emit_watermark(watermark)

    def advance_processing_time(self, now: int) -> None:
        """Drop partial matches that have timed out, in processing time."""
        if not self.spec.rowtime:
            self._engine.expire(now)
            self._flush()

    def next_wakeup(self) -> int | None:
        """Return when the first partial match times out, in processing time."""
        return None if self.spec.rowtime else self._engine.next_deadline()

    # Matches

    def emit(self, engine: PatternEngine, match: Match, key: Key, timestamp: int) -> None:
        """Take a match: read the values that its measures need."""

        def events_of(name: str) -> list[Any]:
            return match.get(name, [])

        for (_, leaves), found in zip(self._measures, self._found, strict=True):
            for leaf, values in zip(leaves, found, strict=True):
                if leaf.kind == "PROCTIME":
                    values.append(self.context.clock())
                else:
                    values.append(leaf.value(self._leaves.rows_of(leaf, events_of)))
        self._matches += 1

    def emit_timed_out(
        self, engine: PatternEngine, match: Match, key: object, timestamp: int
    ) -> None:
        """Ignore partial matches whose time was up."""

    def _flush(self) -> None:
        """Emit the matches that were found."""
        if not self._matches:
            return
        columns = []
        for at, ((expression, leaves), found) in enumerate(
            zip(self._measures, self._found, strict=True)
        ):
            read = [
                column_of(column(place), values, leaf.dtype)
                for place, (leaf, values) in enumerate(zip(leaves, found, strict=True))
            ]
            # A measure may be a constant: it needs as many rows as there are matches.
            whole = pl.DataFrame([pl.Series("$", np.zeros(self._matches, np.int8)), *read])
            columns.append(whole.with_columns(expression.alias("$"))["$"].alias(column(at)))
        self._found = [[[] for _ in each] for _, each in self._measures]
        self._matches = 0
        self.output.emit(ColumnBatch(pl.DataFrame(columns)))

    # State

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        self._waiting.save()
        table, live = self.context.keyed_state.table(RUNS.name), self._engine.live
        for key in self._engine.changed:
            state = live.get(key)
            if state is None:
                table.remove(key)
            else:
                table.put(key, state)
        self._engine.changed.clear()
        return super().barrier()

    def close(self) -> None:
        """Close the user functions."""
        close_functions(self._functions)


def _last_of(spec: MatchRecognizeSpec, index: int) -> Rex:
    """Return a column of the partition, which all rows of a match share."""
    data_type = spec.input_types[index]
    return Call(data_type, "PATTERN REF", (Symbol(NullType(), "*"), InputRef(data_type, index)))


def _rexes(spec: MatchRecognizeSpec) -> list[Rex]:
    return [rex for _, rex in spec.measures]
