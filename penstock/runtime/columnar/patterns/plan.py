"""A row pattern with its definitions as a pattern of the CEP engine: rows follow each other without gaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from penstock.graph.operator_specs.columnar.changes import MatchRecognizeSpec
from penstock.runtime.cep.engine import (
    AfterMatchSkipStrategy,
    Contiguity,
    PatternNode,
    PatternPlan,
    UserCondition,
)
from penstock.runtime.columnar.expressions import compile_expression
from penstock.runtime.columnar.patterns.leaves import Event, PatternLeaf, PatternLeaves
from penstock.runtime.columnar.patterns.residual import evaluator
from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Rex,
    rewrite,
)
from penstock.sql.types import BooleanType


@dataclass(slots=True)
class Conditions:
    """The definitions of variables. Conditions on the row itself are computed in columns: a flag of its event."""

    leaves: PatternLeaves
    flags: list[pl.Expr]
    _waiting: list[tuple[str, Rex, list[tuple[Rex, list[PatternLeaf]]]]]

    def __init__(self, leaves: PatternLeaves, definitions: Sequence[tuple[str, Rex]]) -> None:
        self.leaves = leaves
        self.flags = []
        self._waiting = []
        for variable, rex in definitions:
            own: list[Rex] = []
            others: list[tuple[Rex, list[PatternLeaf]]] = []
            for each in _conjuncts(rex):
                rest, found = leaves.split(each)
                if all(leaf.is_current(variable) for leaf in found):
                    own.append(self._of_row(rest, found))
                else:
                    others.append((rest, found))
            self._waiting.append((variable, _all_of(own), others))

    def _of_row(self, rex: Rex, leaves: Sequence[PatternLeaf]) -> Rex:
        """Return an expression over leaves that are the row itself as one over the row."""
        rows = self.leaves.rows

        def change(part: Rex) -> Rex:
            return rows[leaves[part.index].slots[0] - 1] if isinstance(part, InputRef) else part

        return rewrite(rex, change)

    def compiled(self) -> dict[str, UserCondition]:
        """Return the conditions of variables; all that reads rows must have been split before."""
        found: dict[str, UserCondition] = {}
        start = len(self.leaves.rows) + 1
        for variable, own, others in self._waiting:
            slot = None
            if own is not _TRUE:
                slot = start + len(self.flags)
                self.flags.append(compile_expression(own, self.leaves.zone))
            if not others:
                found[variable] = UserCondition(_flag(slot))
                continue
            steps = [(leaves, evaluator(rest, leaves, self.leaves.zone)) for rest, leaves in others]
            found[variable] = UserCondition(
                _over_match(variable, slot, steps, self.leaves), takes_context=True
            )
        return found


_TRUE = Call(BooleanType(False), "TRUE", ())


def _conjuncts(rex: Rex) -> list[Rex]:
    if isinstance(rex, Call) and rex.function == "AND":
        return [part for each in rex.operands for part in _conjuncts(each)]
    return [rex]


def _all_of(parts: list[Rex]) -> Rex:
    if not parts:
        return _TRUE
    return parts[0] if len(parts) == 1 else Call(parts[0].type, "AND", tuple(parts))


def _flag(slot: int | None) -> Callable[[Event], Any]:
    if slot is None:
        return lambda _: True
    place = slot
    return lambda event: event[place]


def _over_match(
    variable: str,
    slot: int | None,
    steps: Sequence[tuple[list[PatternLeaf], Any]],
    leaves: PatternLeaves,
) -> Callable[[Event, Any], Any]:
    """Return a condition that looks at the rows that the match has, and at the row that may become one more."""

    def holds(event: Event, context: Any) -> bool:
        if slot is not None and not event[slot]:
            return False
        events_of = context.get_events_for_pattern
        for needed, evaluate in steps:
            values = []
            for leaf in needed:
                rows = leaves.rows_of(leaf, events_of)
                if leaf.includes(variable):
                    rows = [*rows, event]
                values.append(leaf.value(rows))
            if not evaluate(values):
                return False
        return True

    return holds


def pattern_plan(spec: MatchRecognizeSpec, conditions: dict[str, UserCondition]) -> PatternPlan:
    """Return the pattern."""
    nodes = [_node(each, conditions) for each in _sequence(spec.pattern)]
    if spec.within_ms is not None:
        nodes[-1] = replace(nodes[-1], within=spec.within_ms)
    return PatternPlan(tuple(nodes), _skip(spec.after_match))


def _sequence(pattern: Any) -> list[Any]:
    """Return the quantified variables of a pattern; parentheses that say nothing are left out."""
    if pattern.kind == "CONCAT":
        return [part for each in pattern.parts for part in _sequence(each)]
    return [pattern]


def _node(pattern: Any, conditions: dict[str, UserCondition]) -> PatternNode:
    least, most = pattern.least, pattern.most
    # An optional row, or a fixed number of rows, is taken if it fits: there is nothing to be greedy about.
    greedy = pattern.greedy and (least, most) != (0, 1) and least != most
    return PatternNode(
        pattern.variable,
        Contiguity.STRICT,
        conditions.get(pattern.variable),
        least=max(least, 1),
        most=most,
        counted=(least, most) not in {(1, 1), (0, 1), (0, None), (1, None)},
        optional=least == 0,
        greedy=greedy,
        inner=Contiguity.STRICT,
    )


def _skip(after_match: tuple[str, str | None]) -> AfterMatchSkipStrategy:
    where, variable = after_match
    if variable is not None:
        made = (
            AfterMatchSkipStrategy.skip_to_first(variable)
            if where.endswith("FIRST")
            else AfterMatchSkipStrategy.skip_to_last(variable)
        )
        return made.throw_exception_on_miss()
    if "NEXT" in where:
        return AfterMatchSkipStrategy.skip_to_next()
    return AfterMatchSkipStrategy.skip_past_last_event()


def variables_of(pattern: Any) -> tuple[str, ...]:
    """Return the variables of a pattern, in the order in which they come."""
    found = [] if pattern.variable is None else [pattern.variable]
    for each in pattern.parts:
        found += variables_of(each)
    return tuple(dict.fromkeys(found))
