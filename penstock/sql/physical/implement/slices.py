"""Window table functions directly below an aggregate: rows need not be copied into their windows, for the aggregate cuts time into slices itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.common import WindowDefinition
from penstock.graph.operator_specs.columnar.sessions import SessionTableFunctionSpec
from penstock.graph.operator_specs.columnar.stateless import CalcSpec, WindowTableFunctionSpec
from penstock.sql.expr.nodes import InputRef, Rex, inputs_of
from penstock.sql.logical.nodes import Field
from penstock.sql.physical.make import calc, ref
from penstock.sql.physical.nodes import PhysicalExchange, PhysicalNode, PhysicalOperator
from penstock.sql.rules.expressions import remap


@dataclass(slots=True)
class WindowInput:
    """Rows as they are before they get windows. `places`: where columns are that the rows with windows have; `window.time` is a column of these rows."""

    node: PhysicalNode
    window: WindowDefinition
    places: dict[int, int]


def unwindowed(below: PhysicalNode, zone: str) -> WindowInput | None:
    """Return the rows below a window table function, with what is computed above it; None if windows themselves are looked at there."""
    if not isinstance(below, PhysicalOperator):
        return None
    if isinstance(below.spec, WindowTableFunctionSpec | SessionTableFunctionSpec):
        return _source(below, below.spec.window)
    if not isinstance(below.spec, CalcSpec):
        return None
    found = unwindowed(below.inputs[0], zone)
    return None if found is None else _calc(below, below.spec, found, zone)


def _source(below: PhysicalOperator, window: WindowDefinition) -> WindowInput:
    source = below.inputs[0]
    if isinstance(source, PhysicalExchange):  # sessions are kept by key
        source = source.inputs[0]
    places = {at: at for at in range(len(source.schema))}
    return WindowInput(source, window, places)


def _calc(
    below: PhysicalOperator, spec: CalcSpec, found: WindowInput, zone: str
) -> WindowInput | None:
    window, node, places = found.window, found.node, found.places
    # A row that is left out before sessions are made would have joined two of them.
    if spec.condition is not None and (
        window.kind == "SESSION" or not inputs_of(spec.condition) <= set(places)
    ):
        return None
    kept: list[Rex] = []
    fields: list[Field] = []
    moved: dict[int, int] = {}
    columns: Sequence[Rex] = (
        [ref(below.inputs[0], at) for at in range(len(below.schema))]
        if spec.projection is None
        else spec.projection
    )
    for at, each in enumerate(columns):
        if inputs_of(each) <= set(places):
            moved[at] = len(kept)
            kept.append(_placed(each, places))
            fields.append(below.schema[at])
        elif not isinstance(each, InputRef):
            return None
    if window.time is not None:
        time = InputRef(node.schema[window.time].type, window.time)
        if time not in kept:
            kept.append(time)
            fields.append(node.schema[window.time])
        window = replace(window, time=kept.index(time))
    partition = []
    for at in window.partition:
        column = InputRef(node.schema[at].type, at)
        if column not in kept:
            return None
        partition.append(kept.index(column))
    if not kept:
        kept, fields = [ref(node, 0)], [node.schema[0]]
    condition = None if spec.condition is None else _placed(spec.condition, places)
    made = calc(node, tuple(fields), kept, condition, zone=zone)
    return WindowInput(made, replace(window, partition=tuple(partition)), moved)


def _placed(rex: Rex, places: dict[int, int]) -> Rex:
    return remap(rex, lambda each: InputRef(each.type, places[each.index]))
