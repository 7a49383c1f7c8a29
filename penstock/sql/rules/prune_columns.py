"""Column pruning: unused columns are not read, computed or sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.sql.expr.nodes import (
    AggregateCall,
    InputRef,
    Rex,
    inputs_of,
)
from penstock.sql.expr.rewriting import remap
from penstock.sql.logical.nodes import (
    LogicalAggregate,
    LogicalCorrelate,
    LogicalExpand,
    LogicalFilter,
    LogicalJoin,
    LogicalMatch,
    LogicalNode,
    LogicalOverAggregate,
    LogicalProject,
    LogicalRank,
    LogicalSetOperation,
    LogicalSink,
    LogicalSort,
    LogicalTableFunctionScan,
    LogicalTableScan,
    LogicalValues,
    LogicalWatermarkAssigner,
    Schema,
)
from penstock.sql.logical.transform import with_inputs

Columns = set[int]
Places = dict[int, int]  # where a column of the old node is in the new one


def prune_columns(roots: Sequence[LogicalNode]) -> list[LogicalNode]:
    """Return plans without unused columns. A shared node keeps all columns that any reader needs.

    >>> from penstock.sql.rules.examples import show_rule
    >>> show_rule(prune_columns, "SELECT auction FROM bids WHERE price > 5")
      LogicalProject(auction=[auction])
      +- LogicalFilter(condition=[(price > 5)])
         +- LogicalTableScan(table=[[c, d, bids]])
    becomes
      LogicalProject(auction=[auction])
      +- LogicalFilter(condition=[(price > 5)])
         +- LogicalTableScan(table=[[c, d, bids]], project=[auction, price])
    """
    pruner = _Pruner(roots)
    return [pruner.whole(root) for root in roots]


class _Pruner:
    def __init__(self, roots: Sequence[LogicalNode]) -> None:
        self._needed: dict[int, Columns] = {}
        self._made: dict[int, tuple[LogicalNode, Places]] = {}
        ordered = _readers_first(roots)
        for root in roots:
            self._ask(root, range(len(root.schema)))
        for node in ordered:
            for source, columns in zip(node.inputs, self._asked(node), strict=True):
                self._ask(source, columns or {0})  # rows without any column could not be counted

    def _ask(self, node: LogicalNode, columns: Iterable[int]) -> None:
        self._needed.setdefault(id(node), set()).update(columns)

    def _asked(self, node: LogicalNode) -> list[Columns]:
        """Return the columns of each input that a node needs to give its own."""
        needed = self._needed.get(id(node), set())
        match node:
            case LogicalProject():
                return [_read(node.expressions[at] for at in needed)]
            case LogicalFilter():
                return [needed | inputs_of(node.condition)]
            case LogicalWatermarkAssigner():
                return [needed | {node.rowtime} | inputs_of(node.expression)]
            case LogicalAggregate():
                return [_aggregate_reads(node, needed)]
            case LogicalTableFunctionScan():
                width = len(node.input.schema)
                time = set() if node.window.time is None else {node.window.time}
                return [_below(needed, width) | time | set(node.window.partition)]
            case LogicalOverAggregate():
                width = len(node.input.schema)
                calls = [call for at, call in enumerate(node.calls) if width + at in needed]
                order = {key.index for key in node.window.order}
                return [
                    _below(needed, width) | set(node.window.partition) | order | calls_read(calls)
                ]
            case LogicalRank():
                width = len(node.input.schema)
                end = set() if node.end_column is None else {node.end_column}
                order = {key.index for key in node.order}
                return [_below(needed, width) | set(node.partition) | order | end]
            case LogicalSort():
                return [needed | {key.index for key in node.order}]
            case LogicalCorrelate():
                width = len(node.input.schema)
                condition = set() if node.condition is None else inputs_of(node.condition)
                return [_below(needed | condition, width) | _read(node.operands)]
            case LogicalJoin():
                return self._join_reads(node, needed)
            case LogicalSetOperation():
                return [set(needed) for _ in node.parts]
            case LogicalExpand():
                return [_read(row[at] for row in node.projections for at in needed)]
        return [set(range(len(each.schema))) for each in node.inputs]

    @staticmethod
    def _join_reads(node: LogicalJoin, needed: Columns) -> list[Columns]:
        width = len(node.left.schema)
        read = needed | inputs_of(node.condition)
        if node.temporal is not None:
            read |= inputs_of(node.temporal)
        left = _below(read, width)
        right = {at - width for at in read if at >= width}
        if node.temporal is not None:
            # The version's time and key are read by the join itself.
            right |= {at for at, field in enumerate(node.right.schema) if field.time is not None}
            right |= _key_columns(node.right)
        return [left, right]

    def whole(self, node: LogicalNode) -> LogicalNode:
        """Return a node with all its columns, in their places."""
        return self._exactly(node, range(len(node.schema)))

    def _exactly(self, node: LogicalNode, columns: Sequence[int] | range) -> LogicalNode:
        """Return a node with these columns and no others."""
        made, places = self.visit(node)
        wanted = [places[at] for at in columns]
        if wanted == list(range(len(made.schema))):
            return made
        return LogicalProject(
            schema=tuple(made.schema[at] for at in wanted),
            input=made,
            expressions=tuple(InputRef(made.schema[at].type, at) for at in wanted),
        )

    def visit(self, node: LogicalNode) -> tuple[LogicalNode, Places]:
        """Return the pruned node, and the new positions of its columns."""
        known = self._made.get(id(node))
        if known is None:
            known = self._made[id(node)] = self._pruned(node)
        return known

    def _input(self, node: LogicalNode, position: int = 0) -> tuple[LogicalNode, Places]:
        """Return an input with exactly the columns that the node needs."""
        columns = sorted(self._asked(node)[position] or {0})
        below = self._exactly(node.inputs[position], columns)
        return below, {at: index for index, at in enumerate(columns)}

    def _pruned(self, node: LogicalNode) -> tuple[LogicalNode, Places]:
        needed = sorted(self._needed.get(id(node), set()))
        match node:
            case LogicalTableScan():
                return _scan(node, needed)
            case LogicalValues():
                return _values(node, needed)
            case LogicalProject():
                return self._project(node, needed)
            case LogicalFilter():
                below, places = self.visit(node.input)
                condition = _placed(node.condition, places)
                return replace(node, schema=below.schema, input=below, condition=condition), places
            case LogicalWatermarkAssigner():
                below, places = self._input(node)
                schema = _moved_schema(node, places)
                expression = _placed(node.expression, places)
                time = places[node.rowtime]
                return (
                    replace(node, schema=schema, input=below, rowtime=time, expression=expression),
                    places,
                )
            case LogicalAggregate():
                return self._aggregate(node, needed)
            case LogicalTableFunctionScan():
                return self._window_table(node)
            case LogicalOverAggregate():
                return self._over(node, needed)
            case LogicalRank():
                return self._rank(node, needed)
            case LogicalSort():
                below, places = self._input(node)
                order = _placed_order(node.order, places)
                schema = _moved_schema(node, places)
                return replace(node, schema=schema, input=below, order=order), places
            case LogicalCorrelate():
                return self._correlate(node)
            case LogicalJoin():
                return self._join(node)
            case LogicalSetOperation():
                parts = tuple(self._exactly(part, needed) for part in node.parts)
                schema = tuple(node.schema[at] for at in needed)
                return replace(node, schema=schema, parts=parts), _numbered(needed)
            case LogicalExpand():
                return self._expand(node, needed)
            case LogicalSink() | LogicalMatch():
                return with_inputs(node, [self.whole(node.input)]), _same(node)
        return with_inputs(node, [self.whole(each) for each in node.inputs]), _same(node)

    def _project(self, node: LogicalProject, needed: list[int]) -> tuple[LogicalNode, Places]:
        below, places = self.visit(node.input)
        pruned = replace(
            node,
            schema=tuple(node.schema[at] for at in needed),
            input=below,
            expressions=tuple(_placed(node.expressions[at], places) for at in needed),
        )
        return pruned, _numbered(needed)

    def _aggregate(self, node: LogicalAggregate, needed: list[int]) -> tuple[LogicalNode, Places]:
        below, places = self._input(node)
        first, count = len(node.keys), len(node.aggregates)
        kept = [at for at in range(count) if first + at in needed]
        calls = tuple(placed_call(node.aggregates[at], places) for at in kept)
        keys = tuple(places[key] for key in node.keys)
        window = node.window
        if window is not None:
            time = None if window.time is None else places[window.time]
            window = replace(
                window, time=time, partition=tuple(places[at] for at in window.partition)
            )
        columns = [*range(first), *(first + at for at in kept)]
        columns += range(first + count, len(node.schema))
        pruned = replace(
            node,
            schema=tuple(node.schema[at] for at in columns),
            input=below,
            keys=keys,
            aggregates=calls,
            window=window,
        )
        return pruned, _numbered(columns)

    def _window_table(self, node: LogicalTableFunctionScan) -> tuple[LogicalNode, Places]:
        below, places = self._input(node)
        width = len(node.input.schema)
        window = replace(
            node.window,
            time=None if node.window.time is None else places[node.window.time],
            partition=tuple(places[at] for at in node.window.partition),
        )
        added = node.schema[width:]
        all_places = _appended(places, below, width, len(added))
        pruned = replace(
            node, schema=(*_moved_schema(node, places), *added), input=below, window=window
        )
        return pruned, all_places

    def _over(self, node: LogicalOverAggregate, needed: list[int]) -> tuple[LogicalNode, Places]:
        below, places = self._input(node)
        width = len(node.input.schema)
        kept = [at for at in range(len(node.calls)) if width + at in needed]
        window = replace(
            node.window,
            partition=tuple(places[at] for at in node.window.partition),
            order=_placed_order(node.window.order, places),
        )
        if not kept:
            return below, places
        pruned = replace(
            node,
            schema=(*_moved_schema(node, places), *(node.schema[width + at] for at in kept)),
            input=below,
            window=window,
            calls=tuple(placed_call(node.calls[at], places) for at in kept),
        )
        found = dict(places)
        found.update({width + at: len(below.schema) + n for n, at in enumerate(kept)})
        return pruned, found

    def _rank(self, node: LogicalRank, needed: list[int]) -> tuple[LogicalNode, Places]:
        below, places = self._input(node)
        width = len(node.input.schema)
        ranked = node.with_rank and width in needed
        added = (node.schema[width],) if ranked else ()
        pruned = replace(
            node,
            schema=(*_moved_schema(node, places), *added),
            input=below,
            partition=tuple(places[at] for at in node.partition),
            order=_placed_order(node.order, places),
            end_column=None if node.end_column is None else places[node.end_column],
            with_rank=ranked,
        )
        return pruned, _appended(places, below, width, len(added))

    def _correlate(self, node: LogicalCorrelate) -> tuple[LogicalNode, Places]:
        below, places = self._input(node)
        width = len(node.input.schema)
        added = node.schema[width:]
        found = _appended(places, below, width, len(added))
        pruned = replace(
            node,
            schema=(*_moved_schema(node, places), *added),
            input=below,
            operands=tuple(_placed(each, places) for each in node.operands),
            condition=None if node.condition is None else _placed(node.condition, found),
        )
        return pruned, found

    def _join(self, node: LogicalJoin) -> tuple[LogicalNode, Places]:
        left, ours = self._input(node, 0)
        right, theirs = self._input(node, 1)
        width, moved = len(node.left.schema), len(left.schema)
        places = dict(ours)
        places.update({width + at: moved + to for at, to in theirs.items()})
        given = len(node.schema)
        kept = sorted(at for at in places if at < given)
        pruned = replace(
            node,
            schema=tuple(node.schema[at] for at in kept),
            left=left,
            right=right,
            condition=_placed(node.condition, places),
            temporal=None if node.temporal is None else _placed(node.temporal, places),
        )
        return pruned, {at: places[at] for at in kept}

    def _expand(self, node: LogicalExpand, needed: list[int]) -> tuple[LogicalNode, Places]:
        below, places = self._input(node)
        pruned = replace(
            node,
            schema=tuple(node.schema[at] for at in needed),
            input=below,
            projections=tuple(
                tuple(_placed(row[at], places) for at in needed) for row in node.projections
            ),
        )
        return pruned, _numbered(needed)


def _readers_first(roots: Sequence[LogicalNode]) -> list[LogicalNode]:
    ordered: list[LogicalNode] = []
    seen: set[int] = set()

    def visit(node: LogicalNode) -> None:
        if id(node) not in seen:
            seen.add(id(node))
            for each in node.inputs:
                visit(each)
            ordered.append(node)

    for root in roots:
        visit(root)
    return ordered[::-1]


def _read(expressions: Iterable[Rex]) -> Columns:
    return {at for each in expressions for at in inputs_of(each)}


def calls_read(calls: Iterable[AggregateCall]) -> Columns:
    """Return the columns that calls read."""
    read: Columns = set()
    for call in calls:
        read |= _read(call.operands) | _read(each for each, _ in call.order)
        if call.filter is not None:
            read |= inputs_of(call.filter)
    return read


def _aggregate_reads(node: LogicalAggregate, needed: Columns) -> Columns:
    first = len(node.keys)
    calls = [call for at, call in enumerate(node.aggregates) if first + at in needed]
    read = set(node.keys) | calls_read(calls)
    if node.window is not None:
        read |= set(node.window.partition)
        read |= set() if node.window.time is None else {node.window.time}
    return read


def _below(columns: Columns, width: int) -> Columns:
    return {at for at in columns if at < width}


def _key_columns(node: LogicalNode) -> Columns:
    """Return the columns of a primary key, as far as a chain of simple nodes down to the table shows them."""
    if isinstance(node, LogicalTableScan):
        key = node.table.primary_key or ()
        return {at for at, field in enumerate(node.schema) if field.name in key}
    if isinstance(node, LogicalFilter | LogicalWatermarkAssigner):
        return _key_columns(node.input)
    if isinstance(node, LogicalProject):
        below = _key_columns(node.input)
        return {
            at
            for at, each in enumerate(node.expressions)
            if isinstance(each, InputRef) and each.index in below
        }
    if isinstance(node, LogicalRank):
        return set(node.partition)
    return set()


def _placed(rex: Rex, places: Places) -> Rex:
    return remap(rex, lambda ref: InputRef(ref.type, places[ref.index]))


def placed_call(call: AggregateCall, places: Places) -> AggregateCall:
    """Return a call whose columns stand elsewhere."""
    return replace(
        call,
        operands=tuple(_placed(each, places) for each in call.operands),
        filter=None if call.filter is None else _placed(call.filter, places),
        order=tuple((_placed(each, places), ascends) for each, ascends in call.order),
    )


def _placed_order(order: Sequence[SortKey], places: Places) -> tuple[SortKey, ...]:
    return tuple(replace(key, index=places[key.index]) for key in order)


def _moved_schema(node: LogicalNode, places: Places) -> Schema:
    """Return the fields of a node's input columns, in their new places."""
    ordered = sorted(places, key=places.__getitem__)
    return tuple(node.schema[at] for at in ordered)


def _numbered(columns: Sequence[int]) -> Places:
    return {at: index for index, at in enumerate(columns)}


def _same(node: LogicalNode) -> Places:
    return {at: at for at in range(len(node.schema))}


def _appended(places: Places, below: LogicalNode, width: int, count: int) -> Places:
    start = len(below.schema)
    return {**places, **{width + at: start + at for at in range(count)}}


def _scan(node: LogicalTableScan, needed: Sequence[int]) -> tuple[LogicalNode, Places]:
    if len(needed) == len(node.schema):
        return node, _same(node)
    schema = tuple(node.schema[at] for at in needed)
    names = tuple(field.name for field in schema)
    return replace(node, schema=schema, columns=names), _numbered(needed)


def _values(node: LogicalValues, needed: Sequence[int]) -> tuple[LogicalNode, Places]:
    return (
        replace(
            node,
            schema=tuple(node.schema[at] for at in needed),
            rows=tuple(tuple(row[at] for at in needed) for row in node.rows),
        ),
        _numbered(needed),
    )
