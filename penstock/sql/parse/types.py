"""Types by their names."""

from __future__ import annotations

from penstock.errors import ArgumentTypeError
from penstock.sql.parse.stream import TokenStream
from penstock.sql.parse.tokens import SqlText
from penstock.sql.parse.trees import TypeName
from penstock.sql.parse.type_names import TypeParser
from penstock.sql.types import DataType


def data_type_of(tree_or_text: object) -> DataType:
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
    tokens = TokenStream(SqlText(tree_or_text))
    kind = TypeParser(tokens).data_type()
    tokens.expect_end()
    return kind
