"""The CEP operators: find patterns in the events of each key.

In event time, events are buffered until the watermark passes them, and are then processed in order of their timestamps. In
processing time they are buffered until the end of their millisecond if there is a comparator, otherwise not at all. Buffered
events become state at the barrier, by key, so that they can be redistributed. Partial matches are stored per key, and removed
as soon as nothing is left of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cmp_to_key
from itertools import compress
from typing import Any

from penstock.common.user_types import Key, Record
from penstock.errors import PenstockError
from penstock.errors.user_errors import UserCodeError
from penstock.graph.keys import for_user
from penstock.graph.operator_specs import CepSpec, DynamicCepSpec
from penstock.graph.operator_specs.patterns import DYNAMIC_RUNS, QUEUE, RUNS
from penstock.runtime.cep.engine import Match
from penstock.runtime.cep.pattern_engine import Order, PatternEngine
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.emission import Collector
from penstock.runtime.operators.hooks import UsesProcessingTime
from penstock.runtime.operators.lateness import LateRecords, earliest_timely
from penstock.runtime.operators.missing_timestamps import lowest_timestamp
from penstock.runtime.records import MAX_WATERMARK, RowBatch
from penstock.runtime.user_code import close_functions, open_function


class MatchContext:
    """The context of functions for matches."""

    __slots__ = ("_clock", "_key", "_pattern_id", "_timestamp")

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._pattern_id: Any = None
        self._key: Any = None
        self._timestamp = 0

    def bind(self, pattern_id: object, key: object, timestamp: int) -> None:
        """Set the current match."""
        self._pattern_id = pattern_id
        self._key = key
        self._timestamp = timestamp

    def timestamp(self) -> int:
        """Return the time of the match."""
        return self._timestamp

    def current_processing_time(self) -> int:
        """Return the processing time in epoch milliseconds."""
        return self._clock()

    def get_current_key(self) -> object:
        """Return the key."""
        return for_user(self._key)

    def get_pattern_id(self) -> object:
        """Return the id of the matching pattern, for dynamic patterns; else None."""
        return self._pattern_id


class CepOperatorBase(StreamOperator, UsesProcessingTime):
    """Base class of CEP operators: buffered events, late ones, results."""

    def __init__(self, spec: Any) -> None:
        super().__init__(spec)
        self.functions: list[Any] = [spec.function]
        self._on_timeout = getattr(spec.function, "process_timed_out_match", None)
        self._order = None if spec.comparator is None else self._create_order(spec.comparator)
        self._values: list[Any] = []  # buffered events, in order of arrival
        self._times: list[int] = []
        self._keys: list[Any] = []
        self._restored: set[Any] = set()  # keys with entries in the queue's table

    def engines(self) -> Iterable[PatternEngine]:
        """Return the active patterns."""
        raise NotImplementedError

    def restore(self, context: OperatorContext) -> None:
        """Restore the partial matches."""
        raise NotImplementedError

    def write(self, engine: PatternEngine) -> None:
        """Write the changed keys of a pattern to the state."""
        raise NotImplementedError

    def _create_order(self, comparator: Callable[[Any, Any], int]) -> Order:
        def compare(first: object, second: object) -> int:
            try:
                return comparator(first, second)
            except Exception as error:
                raise self.guard(error, first, known=True) from error

        in_order = cmp_to_key(compare)
        return lambda timestamp, event: (timestamp, in_order(event))

    def open(self, context: OperatorContext) -> None:
        """Restore the partial matches and buffered events."""
        super().open(context)
        self._bind(context)
        for function in self.functions:
            open_function(function, context.runtime_context)
        self.restore(context)
        for engine in self.engines():
            engine.nfa.clock = context.clock
        for key, events in self._queue.items():
            self._restored.add(key)
            for timestamp, value in events:
                self._keys.append(key)
                self._times.append(timestamp)
                self._values.append(value)

    def _bind(self, context: OperatorContext) -> None:
        self.backend = context.keyed_state
        self.timers = context.timers
        self.collector = Collector.of_function(context)
        self.match_context = MatchContext(context.clock)
        self._queue = context.keyed_state.table(QUEUE.name)
        self._late = LateRecords(context)

    # -- events in

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Buffer events until the watermark arrives, or process them at once in processing time."""
        values, keys = batch.values, batch.keys
        if not values:
            return
        assert keys is not None
        if not self.spec.event_time:
            self._process_now(values, keys)
            return
        timestamps: list[int] = batch.timestamps  # type: ignore[assignment]
        first = lowest_timestamp(batch, self.context, "a pattern in event time")
        if first < earliest_timely(self.timers.watermark):
            values, timestamps, keys = self._without_late(values, timestamps, keys)
        self._values += values
        self._times += timestamps
        self._keys += keys

    def _process_now(self, values: list[Any], keys: list[Any]) -> None:
        """Process events in processing time; a comparator needs all events of a millisecond together."""
        now = self.context.clock()
        times = [now] * len(values)
        if self._order is None:
            self._run(values, times, keys)
        else:
            self._run_before(now)
            self._values += values
            self._times += times
            self._keys += keys
        self.collector.flush()

    def _run_before(self, now: int) -> None:
        """Process the buffered events of milliseconds that are over."""
        if self._times and min(self._times) < now:
            self._run(*self._take_due(now - 1))

    def _without_late(
        self, values: list[Any], timestamps: list[int], keys: list[Any]
    ) -> tuple[list[Any], list[int], list[Any]]:
        watermark = self.timers.watermark
        tag = self.spec.late_tag
        earliest = earliest_timely(watermark)
        in_time = [timestamp >= earliest for timestamp in timestamps]
        if tag is None:
            self._late.drop(
                [timestamp for timestamp in timestamps if timestamp < earliest], watermark
            )
        else:
            for value, timestamp, good in zip(values, timestamps, in_time, strict=True):
                if not good:
                    self.collector.add_side(tag, value, timestamp)
            self.collector.flush()
        return (
            list(compress(values, in_time)),
            list(compress(timestamps, in_time)),
            list(compress(keys, in_time)),
        )

    # -- time

    def process_watermark(self, watermark: int) -> None:
        """Process the events that are due, drop partial matches that timed out, then forward the watermark."""
        self.timers.advance_watermark(watermark, _no_timer)
        if self.spec.event_time:
            if self._times:
                self._run(*self._take_due(watermark))
            for engine in self.engines():
                engine.expire(watermark)
            self.collector.flush()
        elif (
            watermark == MAX_WATERMARK
        ):  # the input has ended: no event of this millisecond follows
            self._run(*self._take_due(watermark))
            self.collector.flush()
        self.output.emit_watermark(watermark)

    def _take_due(self, watermark: int) -> tuple[list[Any], list[int], list[Any]]:
        values, times, keys = self._values, self._times, self._keys
        if not times or max(times) <= watermark:
            self._values, self._times, self._keys = [], [], []
            return values, times, keys
        due = [time <= watermark for time in times]
        rest = [not each for each in due]
        self._values = list(compress(values, rest))
        self._times = list(compress(times, rest))
        self._keys = list(compress(keys, rest))
        return list(compress(values, due)), list(compress(times, due)), list(compress(keys, due))

    def advance_processing_time(self, now: int) -> None:
        """Drop partial matches that timed out, in processing time."""
        if not self.spec.event_time:
            self._run_before(now)
            for engine in self.engines():
                engine.expire(now)
            self.collector.flush()

    def next_wakeup(self) -> int | None:
        """Return when the first partial match times out, or a millisecond is over, in processing time."""
        if self.spec.event_time:
            return None
        times = [engine.next_deadline() for engine in self.engines()]
        if self._times:
            times.append(min(self._times) + 1)
        return min((each for each in times if each is not None), default=None)

    def _run(self, values: list[Any], times: list[int], keys: list[Any]) -> None:
        if values:
            for engine in self.engines():
                engine.run(values, times, keys, self._order)

    # -- results

    def emit(self, engine: PatternEngine, match: Match, key: Key, timestamp: int) -> None:
        """Emit a match."""
        self._emit(self.spec.function.process_match, engine, match, key, timestamp)

    def emit_timed_out(
        self, engine: PatternEngine, match: Match, key: object, timestamp: int
    ) -> None:
        """Emit a partial match that timed out."""
        if self._on_timeout is not None:
            self._emit(self._on_timeout, engine, match, key, timestamp)

    def _emit(
        self,
        call: Callable[[Match, Any], Any],
        engine: PatternEngine,
        match: Match,
        key: Key,
        timestamp: int,
    ) -> None:
        self.backend.current_key = key
        self.match_context.bind(engine.pattern_id, key if self.spec.keyed else None, timestamp)
        # Results in processing time have no event timestamp, as in Flink.
        emitted = timestamp if self.spec.event_time else None
        try:
            full = self.collector.gather(call(match, self.match_context), emitted)
        except Exception as error:
            raise self._match_error(error, match, key) from error
        if full:
            self.collector.flush()

    def _match_error(self, error: Exception, match: Match, key: Key) -> UserCodeError:
        wrapped = self.guard(error, match, known=True)
        if self.spec.keyed:
            wrapped.detail = f"{wrapped.detail}, key {key!r}"
        return wrapped

    # -- state

    def barrier(self) -> list[Any]:
        """Write changes to the state."""
        for engine in self.engines():
            self.write(engine)
        self._write_queue()
        return []

    def _write_queue(self) -> None:
        if not self._times and not self._restored:
            return
        waiting: dict[Any, list[tuple[int, Any]]] = {}
        for key, timestamp, value in zip(self._keys, self._times, self._values, strict=True):
            waiting.setdefault(key, []).append((timestamp, value))
        queue = self._queue
        for key in self._restored:
            if key not in waiting:
                queue.remove(key)
        for key, events in waiting.items():
            before = queue.get(key)
            same = (
                before is not None
                and len(before) == len(events)
                and all(a[1] is b[1] for a, b in zip(before, events, strict=True))
            )
            if not same:
                queue.put(key, events)
        self._restored = set(waiting)

    def close(self) -> None:
        """Close the user's functions."""
        close_functions(self.functions)


def _no_timer(time: int, key: object, namespace: object) -> None:
    """Ignore timers: there are none."""


class CepOperator(CepOperatorBase):
    """Finds the matches of one pattern."""

    def __init__(self, spec: CepSpec) -> None:
        super().__init__(spec)
        self.engine = PatternEngine(self, spec.pattern)
        self.functions += spec.pattern.conditions()

    def engines(self) -> Iterable[PatternEngine]:
        """Return the pattern."""
        return (self.engine,)

    def restore(self, context: OperatorContext) -> None:
        """Restore the partial matches."""
        for key, state in context.keyed_state.table(RUNS.name).items():
            self.engine.restore(key, state)

    def write(self, engine: PatternEngine) -> None:
        """Write the changed keys of the pattern to the state."""
        table, live = self.backend.table(RUNS.name), engine.live
        for key in engine.changed:
            state = live.get(key)
            if state is None:
                table.remove(key)
            else:
                table.put(key, state)
        engine.changed.clear()


class DynamicCepOperator(CepOperatorBase):
    """Finds the matches of dynamic patterns from a broadcast stream (input 1).

    The broadcast state holds the records that describe the patterns, by pattern id; patterns are rebuilt from them after a
    restore. A record that equals the previous one changes nothing; another one for the same id drops the partial matches of
    that pattern, and only those.
    """

    def __init__(self, spec: DynamicCepSpec) -> None:
        super().__init__(spec)
        self._engines: dict[Any, PatternEngine] = {}

    def engines(self) -> Iterable[PatternEngine]:
        """Return the active patterns."""
        return self._engines.values()

    def restore(self, context: OperatorContext) -> None:
        """Rebuild the patterns, and restore their partial matches."""
        self._records = context.operator_state.get_broadcast_state(self.spec.state)
        for pattern_id, record in self._records.items():
            _, plan = self._plan_of(record)
            self._engines[pattern_id] = self._create(pattern_id, plan)
        table = context.keyed_state.table(DYNAMIC_RUNS.name, namespaced=True)
        for (key, pattern_id), state in table.items():
            engine = self._engines.get(pattern_id)
            if engine is not None:
                engine.restore(key, state)

    def _plan_of(self, record: Record) -> tuple[Any, Any]:
        try:
            pattern_id, plan = self.spec.pattern_of(record)
        except PenstockError:
            raise
        except Exception as error:
            raise self.guard(error, record, known=True) from error
        return pattern_id, plan

    def _create(self, pattern_id: Any, plan: Any) -> PatternEngine:
        engine = PatternEngine(self, plan, pattern_id)
        engine.nfa.clock = self.context.clock
        for function in plan.conditions():
            open_function(function, self.context.runtime_context)
        return engine

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Process events, or descriptions of patterns."""
        if input_index == 0:
            super().process(batch)
            return
        for record in batch.values:
            self._update(record)

    def _update(self, record: object) -> None:
        pattern_id, plan = self._plan_of(record)
        before = self._engines.get(pattern_id)
        if before is not None and plan is not None and self._records.get(pattern_id) == record:
            return
        if before is not None:
            table = self.backend.table(DYNAMIC_RUNS.name, namespaced=True)
            for key in {**before.live, **before.changed}:
                table.remove((key, pattern_id))
            close_functions(before.plan.conditions())
            del self._engines[pattern_id]
            self._records.remove(pattern_id)
        if plan is not None:
            self._engines[pattern_id] = self._create(pattern_id, plan)
            self._records.put(pattern_id, record)

    def write(self, engine: PatternEngine) -> None:
        """Write the changed keys of a pattern to the state."""
        table, live = self.backend.table(DYNAMIC_RUNS.name, namespaced=True), engine.live
        for key in engine.changed:
            state = live.get(key)
            if state is None:
                table.remove((key, engine.pattern_id))
            else:
                table.put((key, engine.pattern_id), state)
        engine.changed.clear()

    def close(self) -> None:
        """Close the user's functions, including those of the patterns."""
        conditions = [each for engine in self.engines() for each in engine.plan.conditions()]
        close_functions([*self.functions, *conditions])
