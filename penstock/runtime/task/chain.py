"""The chain of operators inside a subtask: outputs that call the next operator directly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import PenstockError, RecordError
from penstock.runtime.network.edges import EdgeOutput
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.records import Batch
from penstock.runtime.task.typed_output import TypedOutput, typed_output
from penstock.runtime.user_code import RecordFailedError


class ChainOutput:
    """Where one operator of a chain emits to: chained operators and edges, main and side.

    `types` are the declared types of what it emits, by side output tag, None for the main output.
    """

    def __init__(
        self, operator: StreamOperator, types: Mapping[str | None, Any] | None = None
    ) -> None:
        self._operator = operator
        self._types: dict[str | None, TypedOutput] = {}
        for tag, kind in (types or {}).items():
            typed = typed_output(kind)
            if typed is not None:
                self._types[tag] = typed
        self._main_type = self._types.get(None)
        self._operators: list[tuple[StreamOperator, str | None]] = []
        self._edges: list[tuple[EdgeOutput, str | None]] = []
        self._main: list[Any] = []
        self._side: dict[str, list[Any]] = {}
        self.records_out = 0

    def add_operator(self, operator: StreamOperator, tag: str | None) -> None:
        """Chain an operator to the main output or to a side output."""
        self._operators.append((operator, tag))
        (self._main if tag is None else self._side.setdefault(tag, [])).append(operator.process)

    def add_edge(self, edge: EdgeOutput, tag: str | None) -> None:
        """Connect an edge to the main output or to a side output."""
        self._edges.append((edge, tag))
        guarded = _GuardedEdge(self._operator, edge)
        (self._main if tag is None else self._side.setdefault(tag, [])).append(guarded)

    def emit(self, batch: Batch) -> None:
        """Send records to everything on the main output."""
        if self._main_type is not None:
            self._check(self._main_type, batch)
        self.records_out += len(batch)
        _deliver(self._main, batch)

    def emit_side(self, tag: str, batch: Batch) -> None:
        """Send records to everything on a side output; without a consumer they are dropped, as in Flink."""
        consumers = self._side.get(tag, ())
        typed = self._types.get(tag)
        if typed is not None and consumers:
            self._check(typed, batch)
        _deliver(consumers, batch)

    def _check(self, typed: TypedOutput, batch: Batch) -> None:
        try:
            batch.apply_types(typed.apply)
        except RecordError as error:
            context = self._operator.context
            raise RecordError(
                error.message,
                detail=f"in operator '{context.operator_name}', subtask {context.subtask + 1} of "
                f"{context.parallelism}, {error.detail}",
                hint=error.hint,
            ) from None

    def emit_watermark(self, watermark: int) -> None:
        """Send a watermark everywhere."""
        for operator, _ in self._operators:
            operator.process_watermark(watermark)
        for edge, _ in self._edges:
            edge.watermark(watermark)

    def emit_status(self, idle: bool) -> None:
        """Send a status everywhere."""
        for operator, _ in self._operators:
            operator.process_status(idle)
        for edge, _ in self._edges:
            edge.status(idle)


def _deliver(consumers: Any, batch: Batch) -> None:
    """Give every consumer a batch of its own, without copying for the last one."""
    if not len(batch):
        return
    for consumer in consumers[:-1]:
        consumer(batch.isolated())
    if consumers:
        consumers[-1](batch)


class _GuardedEdge:
    """An edge whose user code (key selector, partitioner) is reported under the operator before it."""

    __slots__ = ("_emit", "_operator")

    def __init__(self, operator: StreamOperator, edge: EdgeOutput) -> None:
        self._operator = operator
        self._emit = edge.emit

    def __call__(self, batch: Batch) -> None:
        try:
            self._emit(batch)
        except RecordFailedError as failed:
            raise self._operator.guard(failed.cause, failed.record, known=True) from failed.cause
        except PenstockError:
            raise
        except Exception as error:
            raise self._operator.guard(error) from error
