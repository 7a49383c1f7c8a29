"""Built-in functions: names, and typing of calls."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.errors import ArgumentError, UnsupportedOperationError
from penstock.sql import types as t
from penstock.sql.expr.casts import cast
from penstock.sql.expr.functions import (
    bitmaps,
    collections,
    json,
    numbers,
    operators,
    texts,
    times,
)
from penstock.sql.expr.functions.aggregates import AGGREGATE_ALIASES, AGGREGATES, resolve_aggregate
from penstock.sql.expr.functions.definitions import ALIASES, DEFINITIONS
from penstock.sql.expr.functions.missing import MISSING
from penstock.sql.expr.nodes import Rex

_GROUPS = (
    operators,
    numbers,
    texts,
    times,
    collections,
    json,
    bitmaps,
)  # importing them defines functions


def is_function(name: str) -> bool:
    """Whether there is a built-in scalar function of this name."""
    upper = name.upper()
    return upper in DEFINITIONS or upper in ALIASES or upper in {"CAST", "TRY_CAST"}


def is_aggregate(name: str) -> bool:
    """Whether there is a built-in aggregate or ranking function of this name."""
    upper = name.upper()
    return upper in AGGREGATES or upper in AGGREGATE_ALIASES


def function_names() -> list[str]:
    """Return the names that can be called like `NAME(...)`, in alphabetical order."""
    names = {*DEFINITIONS, *ALIASES, *AGGREGATES, *AGGREGATE_ALIASES, "CAST", "TRY_CAST"}
    return sorted(name for name in names if name.replace("_", "A").isalnum())


def nearest_function(name: str) -> str | None:
    """Return the name of the built-in function that is most like this one, if any is.

    >>> nearest_function("CHAR_LENGHT")
    'CHAR_LENGTH'
    """
    found = difflib.get_close_matches(name.upper(), function_names(), 1, 0.7)
    return found[0] if found else None


def resolve(
    name: str,
    operands: Sequence[Rex],
    *,
    symbols: Mapping[str, Any] | None = None,
    type: t.DataType | None = None,
) -> Rex:
    """Type a call of a built-in scalar function or operator: check its operands, convert them, say what it gives.

    Words of the syntax that are operands (YEAR in EXTRACT, BOTH in TRIM, the unit of TIMESTAMPADD, FLOOR and CEIL) are Symbols in `operands`: EXTRACT(unit, value),
    TRIM(where, characters, text), FLOOR(value, unit). All others are in `symbols`: `returning`, `on_empty`, `on_error`, `on_null`, `wrapper`, `kind` of JSON functions
    (ON EMPTY and ON ERROR with a DEFAULT have its Rex), `names` of ROW, `symmetric` of BETWEEN, `type` of a difference of timestamps. `type` is the target of CAST and TRY_CAST.

    Raises ArgumentError, which knows no position in the statement.
    """
    upper = name.upper()
    if upper in {"CAST", "TRY_CAST"}:
        if type is None or len(operands) != 1:
            raise ArgumentError(f"{upper} needs a value and a type", hint=f"{upper}(value AS type)")
        return cast(operands[0], type, safe=upper == "TRY_CAST")
    definition = DEFINITIONS.get(ALIASES.get(upper, upper))
    if definition is None:
        raise _unknown(upper)
    return definition.resolver(operands, dict(symbols or {}))


def _unknown(name: str) -> Exception:
    if name in MISSING:
        return UnsupportedOperationError(
            f"function {name} is not supported yet", hint=MISSING[name]
        )
    nearest = nearest_function(name)
    hint = f"did you mean {nearest}?" if nearest else None
    return ArgumentError(f"unknown function {name}", hint=hint)


__all__ = [
    "function_names",
    "is_aggregate",
    "is_function",
    "nearest_function",
    "resolve",
    "resolve_aggregate",
]
