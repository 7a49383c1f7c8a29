"""Types by their names."""

from __future__ import annotations

from typing import Any

from penstock.errors import ArgumentTypeError
from penstock.table.sql.stream import checked_end
from penstock.table.sql.tokens import SqlText
from penstock.table.sql.trees import TypeName
from penstock.table.sql.type_names import TypeParser
from penstock.table.types import DataType


def data_type_of(tree_or_text: Any) -> DataType:
    """Return the type that a text names, or that a tree holds.

    >>> data_type_of("ROW<id BIGINT NOT NULL, tags ARRAY<STRING>>").field_names()
    ['id', 'tags']
    """
    if isinstance(tree_or_text, DataType):
        return tree_or_text
    if isinstance(tree_or_text, TypeName):
        return tree_or_text.data_type
    if not isinstance(tree_or_text, str):
        raise ArgumentTypeError(f"type must be a str, got {tree_or_text!r}")
    parser = TypeParser(SqlText(tree_or_text))
    kind = parser.data_type()
    checked_end(parser)
    return kind
