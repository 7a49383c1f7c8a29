"""Connectors of the tables of a plan."""

from __future__ import annotations

from typing import Any

from penstock.catalogs.tables import ComputedColumn
from penstock.sql.connector.providers import TableContext
from penstock.sql.connector.watermark_options import watermark_options, without_watermark_options
from penstock.sql.errors import ValidationError, nearest
from penstock.sql.expr.typing import holds
from penstock.sql.physical.context import PhysicalPlanContext
from penstock.sql.types import BitmapType


def table_source(table: Any, given: dict[str, str], context: PhysicalPlanContext) -> Any:
    """Return the source of a table's connector, or the one that the program has made for it."""
    if table.scan is not None:
        return table.scan()
    factory = factory_of(table, given, context)
    source = factory.source(table_context(table, given, context))
    if source is None:
        raise ValidationError(
            f"table {table.path} cannot be read",
            detail=f"connector '{factory.identifier}' has no source",
        )
    return source


def factory_of(table: Any, given: dict[str, str], context: PhysicalPlanContext) -> Any:
    """Return the factory of a table's connector."""
    name = {**table.options, **given}.get("connector")
    if name is None:
        near = nearest("connector", {**table.options, **given})
        raise ValidationError(
            f"table {table.path} has no connector",
            hint=f"did you mean 'connector' instead of '{near}'?"
            if near
            else "add WITH ('connector' = '...')",
        )
    factory = context.settings.factories.find(name)
    if not factory.takes_all_types:
        for column in table.columns:
            if not isinstance(column, ComputedColumn) and holds(column.type, BitmapType):
                raise ValidationError(
                    f"column '{column.name}' of table {table.path} is {column.type}, which connector '{name}' does not support",
                    hint="declare it as BYTES, and use BITMAP_TO_BYTES and BITMAP_FROM_BYTES",
                )
    return factory


def table_context(table: Any, given: dict[str, str], context: PhysicalPlanContext) -> TableContext:
    """Return the context of a factory: all options except watermark options, which are common to all connectors."""
    settings = context.settings
    options_given = {**table.options, **given}
    watermark_options(options_given, str(table.path))  # rejects invalid options, also before a sink
    own = without_watermark_options(options_given)
    return TableContext(table, own, settings.configuration, settings.batch)
