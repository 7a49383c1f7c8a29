"""Windows: the table functions TUMBLE, HOP, CUMULATE and SESSION, and the group windows of GROUP BY."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from penstock.graph.operator_specs.columnar.common import WindowDefinition
from penstock.sql.errors import UnsupportedQueryError, did_you_mean
from penstock.sql.expr.nodes import InputRef, Literal, Rex
from penstock.sql.logical.context import LogicalPlanContext
from penstock.sql.logical.expressions import Expressions
from penstock.sql.logical.nodes import Field, LogicalNode, LogicalTableFunctionScan
from penstock.sql.logical.schemas import PROCTIME, WINDOW_TIME
from penstock.sql.logical.scope import scope_of
from penstock.sql.parse import trees
from penstock.sql.types import LocalZonedTimestampType

if TYPE_CHECKING:
    from penstock.sql.logical.relations import FromClause

# window table function -> the names of its operands, in order; the last may be left out where OFFSET is
PARAMETERS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
GROUP_WINDOWS = {
    "TUMBLE": ("SIZE",),
    "HOP": ("SLIDE", "SIZE"),
    "SESSION": ("GAP",),
}


def table_function(clause: FromClause, tree: exp.Expr) -> LogicalNode:
    """Return TABLE(f(...)) as a plan: a window table function, or a table function of the user's."""
    call = tree.this
    name = trees.function_path(call)[-1].upper()
    if name in PARAMETERS:
        return window_table(clause, call, name)
    from penstock.sql.logical.correlates import user_table

    return user_table(clause.context, call)


def window_table(clause: FromClause, call: exp.Expr, name: str) -> LogicalNode:
    """Return TUMBLE(TABLE t, DESCRIPTOR(ts), ...) and the like."""
    context = clause.context
    operands = named_operands(context, call, name)
    data = operands["DATA"]
    if not isinstance(data, trees.TableArgument | exp.Subquery):
        raise context.error(
            data,
            f"the first operand of {name} must be a table",
            hint="write TABLE t, or a query in parentheses",
        )
    node, _ = clause.relation(data.this if isinstance(data, trees.TableArgument) else data)
    time = time_column(context, operands["TIMECOL"], node)
    partition = tuple(_column(context, each, node) for each in data.args.get("partition_by") or ())
    if partition and name != "SESSION":
        raise context.error(
            data,
            f"PARTITION BY is only supported for SESSION windows, not {name}",
            kind=UnsupportedQueryError,
        )
    sizes: dict[str, int] = {
        key: milliseconds(context, operands[key], key)
        for key in ("SIZE", "SLIDE", "STEP", "GAP", "OFFSET")
        if key in operands
    }
    definition = define(context, call, name, sizes, time, node, partition)
    field = node.schema[time]
    proctime = field.time == "proctime"
    schema = (
        *(replace(each, window=None) for each in node.schema),
        Field("window_start", WINDOW_TIME, window="start"),
        Field("window_end", WINDOW_TIME, window="end"),
        Field(
            "window_time",
            PROCTIME if proctime else field.type.not_null(),
            time=field.time,
            window="time",
        ),
    )
    return LogicalTableFunctionScan(schema=schema, input=node, window=definition, proctime=proctime)


def named_operands(context: LogicalPlanContext, call: exp.Expr, name: str) -> dict[str, Any]:
    """Return the operands of a window table function by their names."""
    names = PARAMETERS[name]
    found: dict[str, Any] = {}
    for position, each in enumerate(call.expressions):
        if isinstance(each, exp.Kwarg):
            key = str(each.this.name).upper()
            if key not in names:
                raise context.error(
                    each,
                    f"{name} has no operand '{each.this.name}'",
                    hint=did_you_mean(key, names) or f"its operands are {', '.join(names)}",
                )
            found[key] = each.expression
        elif position < len(names):
            found[names[position]] = each
        else:
            raise context.error(each, f"{name} accepts at most {len(names)} operands")
    needed = [each for each in names if each != "OFFSET" and each not in found]
    if needed:
        raise context.error(
            call,
            f"{name} is missing operand {needed[0]}",
            hint=f"its operands are {', '.join(names)}",
        )
    return found


def time_column(context: LogicalPlanContext, descriptor: object, node: LogicalNode) -> int:
    """Return the column of DESCRIPTOR(ts), which must be a time attribute."""
    if not isinstance(descriptor, trees.Descriptor) or len(descriptor.expressions) != 1:
        raise context.error(
            descriptor, "a window needs one time column", hint="write DESCRIPTOR(ts)"
        )
    index = _column(context, descriptor.expressions[0], node)
    check_time(context, descriptor, node.schema[index])
    return index


def check_time(context: LogicalPlanContext, tree: object, field: Field) -> None:
    """Reject a window over a column that is not a time attribute."""
    if field.time is None:
        raise context.error(
            tree,
            f"a window can only be defined over a time attribute, but '{field.name}' is of type {field.type}",
            hint=f"declare WATERMARK FOR {field.name} AS ... in its table, or use a column AS PROCTIME()",
            kind=UnsupportedQueryError,
        )


def _column(context: LogicalPlanContext, tree: exp.Expr, node: LogicalNode) -> int:
    name = trees.name_parts(tree)[-1]
    names = [each.name for each in node.schema]
    if name not in names:
        raise context.error(tree, f"column '{name}' not found", hint=did_you_mean(name, names))
    return names.index(name)


def milliseconds(context: LogicalPlanContext, tree: exp.Expr, what: str) -> int:
    """Return the length of an interval of days and seconds."""
    rex = Expressions(context, scope_of(())).convert(tree)
    return constant_ms(context, tree, rex, what)


def constant_ms(context: LogicalPlanContext, tree: exp.Expr, rex: Rex, what: str) -> int:
    """Return the length of a constant interval."""
    if not isinstance(rex, Literal) or not isinstance(rex.value, timedelta):
        raise context.error(
            tree,
            f"{what} of a window must be a constant interval of days, hours, minutes or seconds",
            hint="write INTERVAL '10' SECOND",
            kind=UnsupportedQueryError,
        )
    return round(rex.value / timedelta(milliseconds=1))


def define(
    context: LogicalPlanContext,
    tree: object,
    name: str,
    sizes: dict[str, int],
    time: int,
    node: LogicalNode,
    partition: Sequence[int] = (),
) -> WindowDefinition:
    """Return the window, checked."""
    for key, value in sizes.items():
        if key != "OFFSET" and value <= 0:
            raise context.error(tree, f"{key} of {name} must be more than 0, got {value} ms")
    size = sizes.get("SIZE", 0)
    step = sizes.get("SLIDE", sizes.get("STEP", 0))
    if name == "CUMULATE" and size % step:
        raise context.error(
            tree, f"the size of CUMULATE must be a multiple of its step: {size} ms, {step} ms"
        )
    field = node.schema[time]
    proctime = field.time == "proctime"
    local = isinstance(field.type, LocalZonedTimestampType)
    return WindowDefinition(
        name,
        size=size,
        slide=step,
        offset=sizes.get("OFFSET", 0),
        gap=sizes.get("GAP", 0),
        time=None if proctime else time,
        zone=context.settings.zone if local else None,
        partition=tuple(partition),
    )


@dataclass(frozen=True, slots=True)
class GroupWindowCall:
    """TUMBLE(ts, size), HOP(ts, slide, size) or SESSION(ts, gap) in GROUP BY."""

    kind: str
    time: InputRef
    sizes: dict[str, int]


def group_window(expressions: Expressions, tree: exp.Expr) -> GroupWindowCall | None:
    """Return the window that a part of GROUP BY is; None if it is none."""
    if not isinstance(tree, exp.Anonymous):
        return None
    path = trees.function_path(tree)
    if len(path) > 1 or path[0].upper() not in GROUP_WINDOWS:
        return None
    return read_group_window(expressions, tree, path[0].upper())


def read_group_window(expressions: Expressions, tree: exp.Expr, kind: str) -> GroupWindowCall:
    """Return the window that the operands of a group window, or of one of its auxiliary functions, say."""
    context = expressions.context
    names = GROUP_WINDOWS[kind]
    if len(tree.expressions) != len(names) + 1:
        raise context.error(
            tree,
            f"{kind} in GROUP BY needs a time attribute and {len(names)} intervals",
            hint=f"write {kind}(ts, {', '.join(f'INTERVAL {n.lower()}' for n in names)})",
        )
    time = expressions.convert(tree.expressions[0])
    if not isinstance(time, InputRef):
        raise context.error(
            tree,
            f"window aggregate can only be defined over a time attribute column, but {time.type} encountered",
            kind=UnsupportedQueryError,
        )
    sizes = {
        name: constant_ms(context, each, expressions.convert(each), name)
        for name, each in zip(names, tree.expressions[1:], strict=True)
    }
    return GroupWindowCall(kind, time, sizes)


def property_field(name: str, what: str, field: Field) -> Field:
    """Return the column of TUMBLE_START and its kin; `field` is the time attribute."""
    if what in {"start", "end"}:
        return Field(name, WINDOW_TIME)
    if what == "proctime":
        return Field(name, PROCTIME, time="proctime")
    return Field(name, field.type, time="rowtime")
