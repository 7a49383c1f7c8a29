"""Operators that send records on which their function raises to a side output, and continue.

Batches are still processed at C speed: a list that is extended from `map` keeps its items when the function raises, and the
iterator over the batch is positioned after the failed record. So a batch costs one more `extend` per failure, and no record is
passed to the function twice.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress, repeat
from typing import Any

from penstock.common.user_types import Record
from penstock.errors import CheckpointError, InvalidProgramError, UnsupportedOperationError
from penstock.records.dead_letter import DeadLetter
from penstock.runtime.isolation import isolated
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.emission import Collector
from penstock.runtime.operators.functions.process import KeyedProcessOperator, ProcessOperator
from penstock.runtime.operators.functions.stateless import (
    FilterOperator,
    FlatMapOperator,
    FunctionOperator,
    MapOperator,
)
from penstock.runtime.operators.result_check import ITERATED
from penstock.runtime.records import RowBatch
from penstock.runtime.user_code import position_of_failure, user_traceback

# Errors of the program, not of a record.
_NOT_THE_RECORD = (InvalidProgramError, UnsupportedOperationError, CheckpointError)


def dead_letter(
    operator: StreamOperator, error: Exception, record: object, timestamp: int | None
) -> DeadLetter:
    """Describe a failure, or raise it if the record is not the cause."""
    if isinstance(error, _NOT_THE_RECORD):
        raise operator.guard(error, record, known=True) from error
    operator.context.runtime_context.get_metrics_group().counter("numDeadLetters").inc()
    kind = type(error)
    return DeadLetter(
        record=record,
        timestamp=timestamp,
        error_type=kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}",
        message=str(error),
        traceback=user_traceback(error),
        operator=operator.context.operator_name,
    )


class _Tolerant(FunctionOperator):
    """Base class of the stateless operators."""

    def _time_of(self, batch: RowBatch, index: int) -> int | None:
        return None if batch.timestamps is None else batch.timestamps[index]

    def apply_to_batch(
        self, batch: RowBatch, call: Callable[[Any], Any]
    ) -> tuple[list[Any], dict[int, DeadLetter]]:
        """Call a function on every record; return the results, and the failures by position."""
        if self.sets_key and batch.keys is not None:
            return self._apply_with_keys(batch, call)
        values = batch.values
        total = len(values)
        results: list[Any] = []
        failed: dict[int, DeadLetter] = {}
        iterator = iter(values)
        while True:
            try:
                results.extend(map(call, iterator))
                at = position_of_failure(iterator, total)
                if len(results) + len(failed) == at + 1:
                    return results, failed
                # A StopIteration of the user's function ends `map` as if there were no more records.
                raise RuntimeError("the function raised StopIteration")
            except Exception as error:  # noqa: BLE001 - any exception becomes part of the dead letter
                at = position_of_failure(iterator, total)
                failed[at] = dead_letter(self, error, values[at], self._time_of(batch, at))

    def _apply_with_keys(
        self, batch: RowBatch, call: Callable[[Any], Any]
    ) -> tuple[list[Any], dict[int, DeadLetter]]:
        backend = self.context.keyed_state
        results = []
        failed = {}
        for at, (value, key) in enumerate(zip(batch.values, batch.keys or (), strict=True)):
            backend.current_key = key
            try:
                results.append(call(value))
            except Exception as error:  # noqa: BLE001 - any exception becomes part of the dead letter
                failed[at] = dead_letter(self, error, value, self._time_of(batch, at))
        return results, failed

    def send(self, failed: dict[int, DeadLetter]) -> None:
        """Emit dead letters."""
        if failed:
            letters = list(failed.values())
            self.output.emit_side(
                self.spec.error_tag, RowBatch(letters, [letter.timestamp for letter in letters])
            )


def _without(batch: RowBatch, failed: dict[int, DeadLetter]) -> tuple[list[Any], Any]:
    """Return values and timestamps of the records that did not fail."""
    values, timestamps = batch.values, batch.timestamps
    if not failed:
        return values, timestamps
    mask = [at not in failed for at in range(len(values))]
    kept = None if timestamps is None else list(compress(timestamps, mask))
    return list(compress(values, mask)), kept


class TolerantMapOperator(_Tolerant, MapOperator):
    """Emits one result per record that does not fail."""

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Map all records."""
        results, failed = self.apply_to_batch(batch, self.call)
        if results:
            self.output.emit(RowBatch(results, _without(batch, failed)[1]))
        self.send(failed)


class TolerantFilterOperator(_Tolerant, FilterOperator):
    """Keeps the records for which the function returns True; a result without a truth value is a failure, too."""

    def open(self, context: OperatorContext) -> None:
        """Open the user's function."""
        super().open(context)
        decide = self.call
        self._decide: Callable[[Any], bool] = lambda value: bool(decide(value))

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Filter all records."""
        mask, failed = self.apply_to_batch(batch, self._decide)
        values, timestamps = _without(batch, failed)
        kept = list(compress(values, mask))
        if kept:
            self.output.emit(
                RowBatch(kept, None if timestamps is None else list(compress(timestamps, mask)))
            )
        self.send(failed)


class TolerantFlatMapOperator(_Tolerant, FlatMapOperator):
    """Emits all results of a record, or a dead letter."""

    def open(self, context: OperatorContext) -> None:
        """Open the user's function."""
        super().open(context)
        flat_map = self.call

        def in_full(value: object) -> list[Any] | None:
            results = flat_map(value)
            if type(results) in ITERATED:
                self.check.note(results)
            return None if results is None else list(map(isolated, results))

        self._in_full = in_full

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Flat-map all records."""
        results, failed = self.apply_to_batch(batch, self._in_full)
        collector = Collector(self.output)
        timestamps = _without(batch, failed)[1] or repeat(None)
        for found, timestamp in zip(results, timestamps, strict=False):
            collector.add_all(found, timestamp)
        collector.flush()
        self.send(failed)


class _GuardedFunction:
    """A process function whose `process_element` never raises for a record."""

    def __init__(self, operator: ProcessOperator, function: Any) -> None:
        self._operator = operator
        self._process = function.process_element
        self.on_timer = getattr(function, "on_timer", None)

    def process_element(self, value: Record, context: Any) -> list[Any] | None:
        """Return all results, or send a dead letter and return none."""
        try:
            results = self._process(value, context)
            self._operator.collector.check(results)
            return None if results is None else list(map(isolated, results))
        except _NOT_THE_RECORD:
            raise
        except Exception as error:  # noqa: BLE001 - any exception becomes part of the dead letter
            operator = self._operator
            timestamp = context.timestamp()
            letter = dead_letter(operator, error, value, timestamp)
            operator.collector.add_side(operator.spec.error_tag, letter, timestamp)
            return None


class TolerantProcessOperator(ProcessOperator):
    """A ProcessFunction whose failures are dead letters."""

    def open(self, context: OperatorContext) -> None:
        """Open the user's function."""
        super().open(context)
        self.function = _GuardedFunction(self, self.function)


class TolerantKeyedProcessOperator(KeyedProcessOperator):
    """A KeyedProcessFunction whose failures on records, not in timers, are dead letters."""

    def open(self, context: OperatorContext) -> None:
        """Open the user's function."""
        super().open(context)
        self.function = _GuardedFunction(self, self.function)
