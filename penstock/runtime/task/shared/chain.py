"""The operator chain of a subtask: outputs that call the next operator directly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import PenstockError, RecordError
from penstock.runtime.network.edges import EdgeOutput
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.records import MIN_WATERMARK, Batch
from penstock.runtime.task.shared.chain_times import ChainTimes, TimedCall
from penstock.runtime.task.shared.typed_output import TypedOutput, typed_output
from penstock.runtime.user_code import RecordFailedError

# Consumers of the main output, of side outputs, and of watermarks.
_Consumers = tuple[list[Any], dict[str, list[Any]], list[Any]]


class ChainOutput:
    """The output of one operator of a chain: chained operators and edges, main and side.

    `types` are the declared output types, by side output tag, None for the main output.
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
        #: The checks and conversions of the declared types; outputs without one pass everything.
        self._main_type = self._types.get(None)
        #: Chained operators and edges with their side output tags. Status changes go to all of them.
        self._operators: list[tuple[StreamOperator, str | None]] = []
        self._edges: list[tuple[EdgeOutput, str | None]] = []
        #: What is called for records of the main output and of side outputs, and for watermarks: `_plain` or `_timed`.
        self._main: list[Any] = []
        self._side: dict[str, list[Any]] = {}
        self._followers: list[Any] = []
        #: The consumers themselves, and the same with time measurement, once a span was measured.
        self._plain = (self._main, self._side, self._followers)
        self._timed: _Consumers | None = None
        #: The chain positions of consumers, None for edges: by tag as in `_main` and `_side`, and of the followers.
        self._places: dict[str | None, list[int | None]] = {}
        self._chained: list[int | None] = []
        #: Records emitted since the attempt or the epoch began, whether anything consumes them or not.
        self.records_out = 0
        self.side_out: dict[str, int] = {}
        #: The last watermark emitted.
        self.watermark = MIN_WATERMARK

    def add_operator(self, operator: StreamOperator, tag: str | None, position: int) -> None:
        """Chain an operator with this position to the main output or to a side output."""
        self._operators.append((operator, tag))
        self._followers.append(operator.process_watermark)
        self._chained.append(position)
        self._add(operator.process, tag, position)

    def add_edge(self, edge: EdgeOutput, tag: str | None) -> None:
        """Connect an edge to the main output or to a side output."""
        self._edges.append((edge, tag))
        self._add(_GuardedEdge(self._operator, edge), tag, None)

    def _add(self, consumer: object, tag: str | None, position: int | None) -> None:
        (self._main if tag is None else self._side.setdefault(tag, [])).append(consumer)
        self._places.setdefault(tag, []).append(position)

    def sample(self, times: ChainTimes | None) -> None:
        """Report the active operator to `times` from now on; None stops it at no cost."""
        if times is None:
            self._main, self._side, self._followers = self._plain
            return
        if self._timed is None:
            self._timed = self._measured(times)
        self._main, self._side, self._followers = self._timed

    def _measured(self, times: ChainTimes) -> _Consumers:
        main, side, followers = self._plain

        def timed(consumers: list[Any], places: list[int | None]) -> list[Any]:
            pairs = zip(consumers, places, strict=True)
            return [
                TimedCall(call, times.outside if place is None else place, times)
                for call, place in pairs
            ]

        return (
            timed(main, self._places.get(None, [])),
            {tag: timed(consumers, self._places[tag]) for tag, consumers in side.items()},
            timed(followers, self._chained),
        )

    def emit(self, batch: Batch) -> None:
        """Emit records to all consumers of the main output."""
        if self._main_type is not None:
            self._check(self._main_type, batch)
        self.records_out += len(batch)
        _deliver(self._main, batch)

    def emit_side(self, tag: str, batch: Batch) -> None:
        """Emit records to all consumers of a side output; without a consumer they are dropped, as in Flink."""
        consumers = self._side.get(tag, ())
        typed = self._types.get(tag)
        if typed is not None and consumers:
            self._check(typed, batch)
        self.side_out[tag] = self.side_out.get(tag, 0) + len(batch)
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
        """Emit a watermark to all consumers."""
        self.watermark = watermark
        for follow in self._followers:
            follow(watermark)
        for edge, _ in self._edges:
            edge.watermark(watermark)

    def emit_status(self, idle: bool) -> None:
        """Emit a status to all consumers."""
        for operator, _ in self._operators:
            operator.process_status(idle)
        for edge, _ in self._edges:
            edge.status(idle)


def _deliver(consumers: Any, batch: Batch) -> None:
    """Pass every consumer its own batch, without copying for the last one."""
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
