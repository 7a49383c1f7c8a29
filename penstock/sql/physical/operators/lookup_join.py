"""Lookup joins: a table is asked for the rows of a key when they are needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.catalogs.tables import PhysicalColumn
from penstock.errors import ArgumentError
from penstock.graph.operator_specs.columnar.joins import LookupJoinSpec
from penstock.graph.state_description import Text
from penstock.options import table as options
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.lookups import LoadedLookup
from penstock.sql.errors import ValidationError
from penstock.sql.expr.nodes import Call, InputRef, Literal, Rex, inputs_of
from penstock.sql.expr.rewriting import all_of, conjuncts, remap
from penstock.sql.logical.nodes import (
    Field,
    LogicalFilter,
    LogicalJoin,
    LogicalNode,
    LogicalProject,
    LogicalTableScan,
    LogicalWatermarkAssigner,
)
from penstock.sql.logical.texts import show, show_millis
from penstock.sql.logical.transform import refs
from penstock.sql.physical.conditions import split
from penstock.sql.physical.connectors import table_source
from penstock.sql.physical.context import PhysicalPlanContext
from penstock.sql.physical.hints import to_millis
from penstock.sql.physical.lineage import Lineage
from penstock.sql.physical.nodes import PhysicalNode, PhysicalOperator
from penstock.sql.physical.operators.calc import calc
from penstock.sql.physical.operators.join_inputs import JOIN_TYPES


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalLookupJoin(PhysicalOperator):
    """Joins each row with the rows of a table that it looks up."""

    spec: LookupJoinSpec

    def describe(self) -> list[str]:
        """Return keys, columns and conditions."""
        spec, names, below = self.spec, self.names, self.input_names
        table = names[len(below) :]
        pairs = [f"{table[to]}={show(each, below)}" for each, to in spec.keys]
        parts = [f"joinType=[{JOIN_TYPES[spec.kind]}]", f"lookup=[{', '.join(pairs)}]"]
        if spec.condition is not None:
            parts.append(f"where=[{show(spec.condition, names)}]")
        parts.append(f"select=[{', '.join(names)}]")
        if spec.asynchronous:
            order = "ORDERED" if spec.ordered else "UNORDERED"
            parts.append(f"async=[{order}, {show_millis(spec.timeout_ms)}, {spec.capacity}]")
        return parts

    def column_lineage(self, lineage: Lineage) -> list[Text]:
        """Return the columns of the input, and those of a table LOOKUP."""
        below = lineage.columns(self.inputs[0])
        return [*below, *lineage.table("LOOKUP", self, first=len(below))]

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return the rows that wait for an answer: they are asked for again."""
        return {"rows": lineage.rows(self.inputs[0])}


@dataclass(slots=True)
class LookupSide:
    """The right side of a lookup join: a table, the columns that are given (over the table's), and conditions over the table's."""

    scan: LogicalTableScan
    columns: list[Rex]
    conditions: list[Rex]


def _looked_up(node: LogicalNode) -> LookupSide | None:
    if isinstance(node, LogicalTableScan):
        return _scanned(node)
    if isinstance(node, LogicalWatermarkAssigner):
        return _looked_up(node.input)
    if not isinstance(node, LogicalProject | LogicalFilter):
        return None
    below = _looked_up(node.input)
    if below is None:
        return None

    def place(column: InputRef) -> Rex:
        return below.columns[column.index]

    if isinstance(node, LogicalFilter):
        below.conditions += [remap(each, place) for each in conjuncts(node.condition)]
    else:
        below.columns = [remap(each, place) for each in node.expressions]
    return below


def _scanned(scan: LogicalTableScan) -> LookupSide:
    """Return a table that is not scanned: conditions that were moved into its scan are checked behind the lookup, of columns that may not be given."""
    stored = [each for each in scan.table.columns if isinstance(each, PhysicalColumn)]
    read = {at for each in scan.filters for at in inputs_of(each)}
    known = {field.name for field in scan.schema}
    more = [stored[at] for at in sorted(read) if stored[at].name not in known]
    schema = (*scan.schema, *(Field(each.name, each.type) for each in more))
    place = {field.name: at for at, field in enumerate(schema)}
    conditions = [
        remap(each, lambda ref: InputRef(ref.type, place[stored[ref.index].name]))
        for each in scan.filters
    ]
    return LookupSide(replace(scan, schema=schema), list(refs(scan.schema)), conditions)


def is_lookup(node: LogicalJoin, left: PhysicalNode, context: PhysicalPlanContext) -> bool:
    """Whether the right side is a table that can be looked up, and is asked for as of now."""
    time = node.temporal
    if not isinstance(time, InputRef):
        return isinstance(time, Call) and time.function == "PROCTIME" and _source(node, context)
    return left.schema[time.index].time == "proctime" and _source(node, context)


def _source(node: LogicalJoin, context: PhysicalPlanContext) -> bool:
    found = _looked_up(node.right)
    if found is None or found.scan.table.options.get("connector") is None:
        return False
    source = table_source(found.scan.table, found.scan.options, context)
    return hasattr(source, "lookup_provider") or _is_small(source, found.scan)


def _is_small(source: Any, scan: LogicalTableScan) -> bool:
    """Whether a table has an end and rows that never change, so that it can be kept as a whole; one with a key has versions."""
    return (
        scan.table.primary_key is None
        and hasattr(source, "apply_projection")
        and bool(source.bounded())
        and source.changelog_mode() == ChangelogMode.insert_only()
        and source.scan().columnar
    )


def _provider(source: Any, keys: Sequence[str], names: Sequence[str]) -> object:
    if hasattr(source, "lookup_provider"):
        return source.lookup_provider(keys, names)
    source.apply_projection(names)
    scanned = source.scan()
    return LoadedLookup(scanned.source, names, scanned.types, [names.index(key) for key in keys])


def lookup_join(
    node: LogicalJoin, left: PhysicalNode, context: PhysicalPlanContext
) -> PhysicalNode:
    """Ask the table for the rows of each left row's key."""
    looked = _looked_up(node.right)
    assert looked is not None
    if node.kind not in {"INNER", "LEFT"}:
        raise ValidationError(f"lookup joins must be INNER or LEFT joins, not {node.kind}")
    width = len(left.schema)

    def place(column: InputRef) -> Rex:
        if column.index < width:
            return column
        return remap(
            looked.columns[column.index - width], lambda it: InputRef(it.type, it.index + width)
        )

    condition = all_of(
        [remap(each, place) for each in conjuncts(node.condition)]
        + [
            remap(each, lambda it: InputRef(it.type, it.index + width))
            for each in looked.conditions
        ]
    )
    keys, rest = _lookup_keys(condition, width)
    if not keys:
        raise ValidationError(
            f"the lookup join with table {looked.scan.table.path} needs an equality on one of its columns",
            detail="Temporal table join requires an equality condition on fields of the looked up table",
            hint="write ON left.column = table.key",
        )
    return _operator(node, left, looked, keys, rest, context)


def _lookup_keys(condition: Rex | None, width: int) -> tuple[list[tuple[Rex, int]], list[Rex]]:
    """Return pairs of an expression over the left row and a column of the table; and the conditions that are left."""
    if condition is None:
        return [], []
    parts = split(condition, width)
    keys: list[tuple[Rex, int]] = []
    rest: list[Rex] = []
    for one, other, safe in zip(parts.left, parts.right, parts.null_safe, strict=True):
        if isinstance(other, InputRef) and not safe and other.index not in {at for _, at in keys}:
            keys.append((one, other.index))
        else:
            name = "IS NOT DISTINCT FROM" if safe else "="
            moved = remap(other, lambda it: InputRef(it.type, it.index + width))
            rest.append(Call(condition.type, name, (one, moved)))
    for each in parts.rest:
        constant = _constant_key(each, width)
        if constant is not None and constant[1] not in {at for _, at in keys}:
            keys.append(constant)
        else:
            rest.append(each)
    return keys, rest


def _constant_key(rex: Rex, width: int) -> tuple[Rex, int] | None:
    if not isinstance(rex, Call) or rex.function != "=":
        return None
    one, other = rex.operands
    if isinstance(one, Literal):
        one, other = other, one
    if isinstance(other, Literal) and isinstance(one, InputRef) and one.index >= width:
        return other, one.index - width
    return None


def _operator(
    node: LogicalJoin,
    left: PhysicalNode,
    looked: LookupSide,
    keys: Sequence[tuple[Rex, int]],
    rest: Sequence[Rex],
    context: PhysicalPlanContext,
) -> PhysicalNode:
    scan, width = looked.scan, len(left.schema)
    needed = sorted(
        {at for _, at in keys}
        | {at for each in looked.columns for at in inputs_of(each)}
        | {at - width for each in rest for at in inputs_of(each) if at >= width}
    )
    place = {at: index for index, at in enumerate(needed)}

    def moved(column: InputRef) -> Rex:
        if column.index < width:
            return column
        return InputRef(column.type, place[column.index - width] + width)

    names = [scan.schema[at].name for at in needed]
    source = table_source(scan.table, scan.options, context)
    provider = _provider(source, [scan.schema[at].name for _, at in keys], names)
    nullable = node.kind == "LEFT"
    added = tuple(
        Field(field.name, field.type.nullable() if nullable else field.type)
        for field in (scan.schema[at] for at in needed)
    )
    spec = LookupJoinSpec(
        node.kind,
        left.types,
        tuple(scan.schema[at].type for at in needed),
        provider,
        tuple((each, place[at]) for each, at in keys),
        all_of(remap(each, moved) for each in rest),
        **_behaviour(node.hints, source, left, context),
        zone=context.zone,
    )
    traits = replace(left.traits, keys=frozenset(), window=left.traits.window)
    whole = PhysicalLookupJoin.of(spec, (left,), (*left.schema, *added), traits)
    given = [
        remap(each, lambda it: InputRef(added[place[it.index]].type, place[it.index] + width))
        for each in looked.columns
    ]
    if nullable and any(not isinstance(each, InputRef) for each in given):
        raise ValidationError(
            f"the LEFT lookup join with {scan.table.path} computes columns of the table",
            detail="they would be non-NULL for rows without a match",
            hint="compute them in the outer query",
        )
    return calc(whole, node.schema, [*refs(left.schema), *given], zone=context.zone)


def _behaviour(
    hints: dict[str, Any], source: object, left: PhysicalNode, context: PhysicalPlanContext
) -> dict[str, Any]:
    """Return the asynchronous and retry settings of the LOOKUP hint and the options."""
    hint = hints.get("LOOKUP") or {}
    configuration = context.settings.configuration
    asynchronous = str(hint.get("async", getattr(source, "asynchronous", False))).lower() == "true"
    mode = hint.get("output-mode", configuration.get(options.ASYNC_OUTPUT)).upper()
    if mode not in {"ORDERED", "ALLOW_UNORDERED"}:
        raise ArgumentError(
            f"invalid output-mode '{mode}' in the LOOKUP hint",
            hint="use ordered or allow_unordered",
        )
    retry = None
    if hint.get("retry-predicate"):
        retry = {
            "predicate": hint["retry-predicate"],
            "strategy": hint.get("retry-strategy", "fixed_delay"),
            "delay_ms": to_millis(hint.get("fixed-delay", "1 s")),
            "attempts": int(hint.get("max-attempts", 3)),
        }
    return {
        "asynchronous": asynchronous,
        # A retraction must not overtake the row that it retracts.
        "ordered": mode == "ORDERED" or left.traits.changes.retracts,
        "capacity": int(hint.get("capacity", configuration.get(options.ASYNC_CAPACITY))),
        "timeout_ms": to_millis(hint["timeout"])
        if "timeout" in hint
        else context.settings.millis(options.ASYNC_TIMEOUT),
        "retry": retry,
    }
