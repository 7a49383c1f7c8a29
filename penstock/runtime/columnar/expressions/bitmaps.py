"""Functions of bitmaps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.runtime.columnar.bitmaps import (
    normal,
    numbers_of,
    of_numbers,
    read,
    text_of,
    written,
)
from penstock.runtime.columnar.expressions.compiler import FALLIBLE
from penstock.runtime.columnar.expressions.texts import each_row

each_row("BITMAP_BUILD", lambda numbers: written(of_numbers(numbers)))
each_row("BITMAP_FROM_BYTES", normal)
each_row("BITMAP_TO_BYTES", bytes)
each_row("BITMAP_TO_ARRAY", numbers_of)
each_row("BITMAP_TO_STRING", text_of)
each_row("BITMAP_CARDINALITY", lambda data: len(read(data)))
FALLIBLE.add("BITMAP_FROM_BYTES")


def _combined(name: str, combine: Callable[[Any, Any], Any]) -> None:
    each_row(name, lambda left, right: written(combine(read(left), read(right))))


_combined("BITMAP_AND", lambda left, right: left & right)
_combined("BITMAP_OR", lambda left, right: left | right)
_combined("BITMAP_XOR", lambda left, right: left ^ right)
_combined("BITMAP_ANDNOT", lambda left, right: left - right)
