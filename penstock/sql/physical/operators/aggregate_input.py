"""What aggregates have in common: their input, and its description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.graph.state_description import Text
from penstock.sql.expr.nodes import AggregateCall, InputRef, Literal, Rex
from penstock.sql.logical.nodes import Field
from penstock.sql.logical.texts import show_as, show_call, show_columns
from penstock.sql.physical.context import PhysicalPlanContext
from penstock.sql.physical.lineage import Lineage, text_of_call
from penstock.sql.physical.nodes import PhysicalNode, PhysicalOperator, ref
from penstock.sql.physical.operators.calc import calc


class AggregateInput:
    """An input of an aggregate that has the columns it needs and no others: keys first, then operands."""

    def __init__(self, below: PhysicalNode, keys: Sequence[int], extra: Sequence[int] = ()) -> None:
        self._below = below
        self._fields: list[Field] = []
        self._columns: list[Rex] = []
        self.keys = tuple(self.column(ref(below, key)) for key in keys)
        self.extra = tuple(self.column(ref(below, each)) for each in extra)

    def column(self, expression: Rex) -> int:
        """Return where an expression stands."""
        for at, known in enumerate(self._columns):
            if known == expression:
                return at
        if isinstance(expression, InputRef):
            field = self._below.schema[expression.index]
        else:
            field = Field(f"$f{len(self._columns)}", expression.type)
        self._fields.append(field)
        self._columns.append(expression)
        return len(self._columns) - 1

    def call(self, call: AggregateCall) -> AggregateCall:
        """Return a call whose expressions are columns of the prepared input, and literals."""

        def place(rex: Rex) -> Rex:
            return rex if isinstance(rex, Literal) else InputRef(rex.type, self.column(rex))

        return replace(
            call,
            operands=tuple(map(place, call.operands)),
            filter=None if call.filter is None else place(call.filter),
            order=tuple((place(each), ascends) for each, ascends in call.order),
        )

    def node(self, context: PhysicalPlanContext) -> PhysicalNode:
        """Return the input; at least one column, for rows without any could not be counted."""
        if not self._columns:
            self.column(ref(self._below, 0))
        return calc(self._below, tuple(self._fields), self._columns, zone=context.zone)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalAggregate(PhysicalOperator):
    """Base of aggregates by key. With two phases, the input of the second are the accumulators of the first."""

    spec: Any

    def accumulated(self) -> tuple[PhysicalNode, tuple[int, ...]]:
        """Return the rows that it is about, and the keys among their columns: with two phases, those of the first."""
        below, keys = self.inputs[0], tuple(self.spec.keys)
        if not self.spec.merges:
            return below, keys
        first: Any = below.inputs[0]  # below the exchange
        rows, of_first = first.accumulated()
        return rows, tuple(of_first[at] for at in keys)

    def calls_lineage(self, lineage: Lineage) -> list[Text]:
        """Return the keys and the calls, in terms of the rows that they are about."""
        rows, keys = self.accumulated()
        below = lineage.columns(rows)
        calls = [text_of_call(each, below, self.spec.zone) for each in self.spec.aggregates]
        return [*(below[at] for at in keys), *calls]

    def describe_keys(self) -> list[str]:
        """Return the keys, if there are any."""
        keys = show_columns(self.spec.keys, self.input_names)
        return [f"groupBy=[{keys}]"] if self.spec.keys else []

    def describe_calls(self, first: int, *, merges: bool = False) -> str:
        """Return the columns, of which that at `first` is the first call."""
        names, below = self.names, self.input_names
        calls = [
            show_as(f"{call.function}(...)" if merges else show_call(call, below), name)
            for call, name in zip(self.spec.aggregates, names[first:], strict=False)
        ]
        return f"select=[{', '.join([*names[:first], *calls, *names[first + len(calls) :]])}]"
