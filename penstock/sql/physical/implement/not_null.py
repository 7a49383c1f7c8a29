"""Where the parts of a column are that are NOT NULL (`table.exec.sink.nested-constraint-enforcer`)."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.sql import types as t

Path = tuple[str, ...]


def not_null_paths(data_type: t.DataType, *, collections: bool) -> Iterator[Path]:
    """Yield the paths to the parts of a type that are NOT NULL; those of `collections` (ARRAY, MAP, MULTISET) if they are asked for.

    >>> inner = t.RowType([t.RowField("b", t.IntType(nullable=False))])
    >>> list(not_null_paths(t.RowType([t.RowField("a", inner)]), collections=False))
    [('a', 'b')]
    """
    for path, part in _parts(data_type, collections):
        if not part.is_nullable:
            yield path
        for rest in not_null_paths(part, collections=collections):
            yield (*path, *rest)


def _parts(data_type: t.DataType, collections: bool) -> Iterator[tuple[Path, t.DataType]]:
    if isinstance(data_type, t.RowType):
        for field in data_type.fields:
            yield (field.name,), field.data_type
    if not collections:
        return
    if isinstance(data_type, t.ArrayType):
        yield ("*",), data_type.element_type
    elif isinstance(data_type, t.MultisetType):
        yield ("*", "key"), data_type.element_type
    elif isinstance(data_type, t.MapType):
        yield ("*", "key"), data_type.key_type
        yield ("*", "value"), data_type.value_type


def shown_path(column: str, path: Path) -> str:
    """Return how messages call a part of a column.

    >>> shown_path("orders", ("*", "id"))
    'orders[*].id'
    """
    return column + "".join("[*]" if step == "*" else f".{step}" for step in path)
