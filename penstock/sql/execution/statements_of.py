"""The statements that would make a table, a view or a catalog: SHOW CREATE."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.catalogs.in_memory import CatalogStore
from penstock.catalogs.tables import (
    Column,
    ComputedColumn,
    MetadataColumn,
    ResolvedTable,
    ResolvedView,
)
from penstock.options.configuration import shown
from penstock.sql.errors import ValidationError
from penstock.sql.types import DataType, VarBinaryType, VarCharType


def create_table(table: ResolvedTable, *, temporary: bool = False) -> str:
    """Return CREATE TABLE of a table."""
    if table.bound is not None:
        raise ValidationError(
            f"{table.path} was not created by SQL",
            hint="only tables created by a statement can be shown",
        )
    lines = [_column(each) for each in table.columns]
    if table.watermark is not None:
        lines.append(f"WATERMARK FOR {_name(table.watermark[0])} AS {table.watermark[2]}")
    if table.primary_key is not None:
        constraint = _name(f"PK_{'_'.join(table.primary_key)}")
        lines.append(
            f"CONSTRAINT {constraint} PRIMARY KEY ({_names(table.primary_key)}) NOT ENFORCED"
        )
    text = f"CREATE {'TEMPORARY ' if temporary else ''}TABLE {table.path} (\n"
    text += ",\n".join(f"  {line}" for line in lines) + "\n)"
    text += f"\nCOMMENT {_text(table.comment)}" if table.comment else ""
    if table.partition_keys:
        text += f"\nPARTITIONED BY ({_names(table.partition_keys)})"
    return text + _options(table.options)


def create_view(view: ResolvedView, names: Sequence[str], *, temporary: bool = False) -> str:
    """Return CREATE VIEW of a view with these columns."""
    if view.bound is not None and not view.text:
        raise ValidationError(
            f"{view.path} was created from a Table object",
            hint="only views created by a statement can be shown",
        )
    columns = ",\n".join(f"  {_name(name)}" for name in names)
    text = f"CREATE {'TEMPORARY ' if temporary else ''}VIEW {view.path} (\n{columns}\n)"
    text += f"\nCOMMENT {_text(view.comment)}" if view.comment else ""
    return f"{text}\nAS {view.text}"


def create_catalog(catalog: CatalogStore) -> str:
    """Return CREATE CATALOG of a catalog."""
    comment = f"\nCOMMENT {_text(catalog.comment)}" if catalog.comment else ""
    return f"CREATE CATALOG {_name(catalog.name)}{comment}{_options(catalog.options)}"


def _column(column: Column) -> str:
    parts = [_name(column.name)]
    if isinstance(column, ComputedColumn):
        parts.append(f"AS {column.text}")
    else:
        parts.append(_type(column.type))
    if isinstance(column, MetadataColumn):
        parts.append("METADATA")
        parts += [f"FROM {_text(column.key)}"] if column.key != column.name else []
        parts += ["VIRTUAL"] if column.virtual else []
    parts += [f"COMMENT {_text(column.comment)}"] if column.comment else []
    return " ".join(parts)


def _options(options: Mapping[str, str]) -> str:
    if not options:
        return ""
    lines = (f"  {_text(key)} = {_text(shown(key, value))}" for key, value in options.items())
    return "\nWITH (\n" + ",\n".join(lines) + "\n)"


def _name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(_name, names))


def _text(text: str | None) -> str:
    return "'" + (text or "").replace("'", "''") + "'"


def _type(kind: DataType) -> str:
    """Return a type with its length, as Flink writes types that are stored."""
    if isinstance(kind, VarCharType | VarBinaryType):
        return f"{kind.type_name()}({kind.length}){'' if kind.is_nullable else ' NOT NULL'}"
    return str(kind)
