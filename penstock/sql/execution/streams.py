"""Streams as tables: columns and time attributes of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.graph.transformations import OperatorTransformation, Transformation
from penstock.sql.connector.type_mapping import data_type_of
from penstock.sql.errors import ValidationError, did_you_mean
from penstock.sql.execution.descriptors import parsed, type_of
from penstock.sql.execution.query_scope import to_sql
from penstock.sql.logical.nodes import (
    Field,
    LogicalNode,
    LogicalStreamScan,
    LogicalWatermarkAssigner,
)
from penstock.sql.table_api.expression import (
    AliasExpression,
    ColumnExpression,
    Expression,
    WindowPropertyExpression,
    quoted_name,
)
from penstock.sql.table_api.schema import DeclaredColumn, Schema
from penstock.sql.types import DataType, LocalZonedTimestampType, TimestampType

if TYPE_CHECKING:
    from penstock.sql.execution.context import StatementContext

_ROWTIME = "rowtime"
_SOURCE_WATERMARK = "SOURCE_WATERMARK()"


def plan_of_stream(
    context: StatementContext,
    stream: Transformation,
    info: TypeInformation,
    fields_or_schema: Sequence[Any],
    *,
    changes: bool = False,
    upserts: bool = False,
) -> LogicalNode:
    """Return the plan that reads a stream of records of a type."""
    if len(fields_or_schema) == 1 and isinstance(fields_or_schema[0], Schema):
        schema = fields_or_schema[0]
    else:
        schema = _schema_of_fields(info, fields_or_schema)
    chosen = bool(fields_or_schema) and schema is not fields_or_schema[0]
    return _StreamTable(
        context, stream, info, schema, changes=changes, upserts=upserts, chosen=chosen
    ).plan()


def own_fields(info: TypeInformation) -> list[tuple[str, TypeInformation]]:
    """Return names and types of the fields of a stream's records; a single value is f0."""
    if isinstance(info, RowTypeInfo):
        return list(zip(info.get_field_names(), info.get_field_types(), strict=True))
    if isinstance(info, TupleTypeInfo):
        return [(f"f{n}", kind) for n, kind in enumerate(info.get_field_types())]
    return [("f0", info)]


class _StreamTable:
    """A stream, with the schema that was declared for it."""

    def __init__(
        self,
        context: StatementContext,
        stream: Transformation,
        info: TypeInformation,
        schema: Schema,
        *,
        changes: bool,
        upserts: bool,
        chosen: bool,
    ) -> None:
        self._context = context
        self._stream = stream
        self._info = info
        self._schema = schema
        self._changes = changes
        self._upserts = upserts
        self._chosen = chosen  # fields were listed explicitly: there are no others

    def plan(self) -> LogicalNode:
        """Return the scan, the columns in the order that was declared, and the watermark."""
        scan = self._scan()
        node: LogicalNode = scan
        columns = self._columns(scan)
        if columns is not None:
            node = self._projected(scan, columns)
        return self._with_watermark(node)

    def _scan(self) -> LogicalStreamScan:
        declared = {
            each.name: each.type for each in self._schema.columns if each.kind == "physical"
        }
        info = self._info
        names, types = self._own_columns(info, declared)
        for name in declared:
            if name not in names:
                raise ValidationError(
                    f"the stream has no field '{name}'",
                    detail=f"the fields are {', '.join(names)}",
                    hint=did_you_mean(name, names),
                )
        single = not isinstance(info, RowTypeInfo | TupleTypeInfo) and len(names) == 1
        timestamp = None
        for each in self._schema.columns:
            if each.kind == "metadata":
                _check_metadata(each)
                timestamp = len(names)
                names, types = [*names, each.name], [*types, type_of(each.type)]
        key = self._schema.primary_key
        types = [
            kind.not_null() if key is not None and name in key else kind
            for name, kind in zip(names, types, strict=True)
        ]
        watermark = self._schema.watermark
        own_time = watermark[0] if watermark is not None and self._own_watermark else None
        return LogicalStreamScan(
            schema=tuple(
                Field(name, kind, "rowtime" if name == own_time else None)
                for name, kind in zip(names, types, strict=True)
            ),
            transformation=self._stream,
            changes=self._changes,
            upserts=self._upserts,
            primary_key=None if key is None else tuple(names.index(name) for name in key),
            bounded=is_bounded(self._stream),
            single=single and timestamp is None,
            timestamp=timestamp,
            watermarked=self._own_watermark,
        )

    def _own_columns(
        self, info: TypeInformation, declared: dict[str, Any]
    ) -> tuple[list[str], list[DataType]]:
        """Return the stream's fields, with the types that are declared for them.

        The records of a stream without a type are what the schema says they are.
        """
        fields = own_fields(info)
        untyped = not isinstance(info, RowTypeInfo | TupleTypeInfo) and "f0" not in declared
        if untyped and declared and _is_unknown(info):
            return list(declared), [type_of(kind) for kind in declared.values()]
        types = [
            type_of(declared[name]) if name in declared else data_type_of(kind)
            for name, kind in fields
        ]
        return [name for name, _ in fields], types

    def _columns(self, scan: LogicalStreamScan) -> list[str] | None:
        """Return the projection over the scan, as SQL; None if all columns are unchanged."""
        columns = self._schema.columns
        own = [each.name for each in scan.schema]
        if not self._chosen and not any(each.kind == "physical" for each in columns):
            given = {each.name for each in columns}
            automatic = [DeclaredColumn(name, "physical") for name in own if name not in given]
            columns = (*automatic, *columns)
        if [each.name for each in columns] == own and all(
            each.kind != "computed" for each in columns
        ):
            return None
        shown = []
        for each in columns:
            name = quoted_name(each.name)
            if each.kind == "computed":
                text = each.expression
                text = text if isinstance(text, str) else to_sql(self._context, text)
                shown.append(f"{text} AS {name}")
            else:
                shown.append(name)
        return shown

    def _projected(self, scan: LogicalStreamScan, columns: list[str]) -> LogicalNode:
        table = quoted_name(self._context.name_plan(scan))
        return self._context.query(f"SELECT {', '.join(columns)} FROM {table}")  # noqa: S608 - names of our own

    @property
    def _own_watermark(self) -> bool:
        watermark = self._schema.watermark
        return watermark is not None and _text(watermark[1]) == _SOURCE_WATERMARK

    def _with_watermark(self, node: LogicalNode) -> LogicalNode:
        if self._schema.watermark is None:
            return node
        name, expression = self._schema.watermark
        names = [each.name for each in node.schema]
        if name not in names:
            raise ValidationError(
                f"the watermark refers to unknown column '{name}'",
                hint=did_you_mean(name, names),
            )
        index = names.index(name)
        kind = node.schema[index].type
        if not isinstance(kind, TimestampType | LocalZonedTimestampType) or kind.precision > 3:
            raise ValidationError(
                f"invalid watermark column '{name}' of type {kind}",
                hint="it must be TIMESTAMP(3) or TIMESTAMP_LTZ(3)",
            )
        schema = tuple(
            replace(each, time="rowtime") if at == index else each
            for at, each in enumerate(node.schema)
        )
        if self._own_watermark:
            return replace(node, schema=schema)
        tree, text = parsed(self._context, expression)
        rex = self._context.planner.expression(tree, node.schema, text)
        return LogicalWatermarkAssigner(schema=schema, input=node, rowtime=index, expression=rex)


def _text(expression: object) -> str:
    return str(expression).replace(" ", "").upper()


def _is_unknown(info: TypeInformation) -> bool:
    from penstock.common.typeinfo import PickledBytesTypeInfo

    return isinstance(info, PickledBytesTypeInfo)


def _check_metadata(column: DeclaredColumn) -> None:
    key = column.metadata_key or column.name
    if key != _ROWTIME:
        raise ValidationError(
            f"unknown metadata key '{key}'",
            hint="a stream has 'rowtime', the timestamps of its records",
        )


def is_bounded(transformation: Transformation) -> bool:
    """Whether all sources behind a step have an end."""
    from penstock.connectors.base.source import Boundedness

    stack, seen = [transformation], set()
    while stack:
        step = stack.pop()
        if step.id in seen:
            continue
        seen.add(step.id)
        stack.extend(step.inputs)
        source = step.spec.reads_from if isinstance(step, OperatorTransformation) else None
        if source is not None and source.get_boundedness() is not Boundedness.BOUNDED:
            return False
    return True


def _schema_of_fields(info: TypeInformation, fields: Sequence[Any]) -> Schema:
    """Return the schema that expressions describe: columns by name or position, and time attributes."""
    if not fields:
        return Schema()
    own = own_fields(info)
    names = [name for name, _ in own]
    plain = [each for each in fields if not isinstance(_inner(each), WindowPropertyExpression)]
    by_name = all(_name(each) in names for each in plain)
    if not by_name and len(plain) > len(own):
        raise ArgumentError(f"got {len(plain)} names for {len(own)} fields")
    columns: list[DeclaredColumn] = []
    watermark = None
    position = 0
    renamed: dict[str, str] = {}
    for each in fields:
        inner = _inner(each)
        name = each.names[0] if isinstance(each, AliasExpression) else _name(each)
        if isinstance(inner, WindowPropertyExpression) and inner.which == "proctime":
            columns.append(DeclaredColumn(name, "computed", expression="PROCTIME()"))
        elif isinstance(inner, WindowPropertyExpression) and inner.which == "rowtime":
            # In place of a field with that name, if there is one: its values are the timestamps anyway.
            columns.append(
                DeclaredColumn(name, "metadata", "TIMESTAMP_LTZ(3)", metadata_key=_ROWTIME)
            )
            watermark = (name, _SOURCE_WATERMARK)
            position += 0 if by_name or position >= len(own) or len(plain) == len(own) else 1
        else:
            source = _name(inner) if by_name else names[position]
            position += 1
            renamed[name] = source
            columns.append(DeclaredColumn(name, "computed", expression=quoted_name(source)))
    return Schema(_straight(columns, renamed, own), watermark)


def _straight(
    columns: list[DeclaredColumn],
    renamed: dict[str, str],
    own: list[tuple[str, TypeInformation]],
) -> list[DeclaredColumn]:
    """Return columns; those that only keep their name are the stream's own."""
    types = dict(own)
    return [
        DeclaredColumn(each.name, "physical", data_type_of(types[each.name]))
        if renamed.get(each.name) == each.name
        else each
        for each in columns
    ]


def _inner(field: Any) -> object:
    return field.expression if isinstance(field, AliasExpression) else field


def _name(field: object) -> str:
    if isinstance(field, str):
        return field
    inner = _inner(field)
    if isinstance(inner, WindowPropertyExpression):
        inner = inner.expression
    if isinstance(inner, ColumnExpression):
        return inner.name
    if isinstance(field, Expression):
        raise ArgumentError(f"{field} is not a column of a stream", hint="write col('name')")
    raise ArgumentTypeError(
        f"{field!r} is not a column of a stream", hint="pass a Schema, or columns: col('name')"
    )
