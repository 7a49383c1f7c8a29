"""Declared types at the edge of the API.

What a declared type does to values happens where an operator emits them, for whole batches: see
`penstock.runtime.typed_output`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.common.type_information import TypeInformation
from penstock.common.typeinfo import RowTypeInfo
from penstock.common.typeinfo import check_type as check_type_information


def check_type(type_info: Any, what: str = "output_type") -> Any:
    """Return a declared type, a row type for a list of types, or None where nothing is declared."""
    if type_info is None:
        return None
    if isinstance(type_info, list):
        return RowTypeInfo(type_info)
    return check_type_information(type_info, what)


def forward_checkpoints(wrapper: Any, function: Any) -> None:
    """Give a wrapper the methods of a CheckpointedFunction if the user's function has them."""
    for method in ("initialize_state", "snapshot_state"):
        if callable(getattr(function, method, None)):
            setattr(wrapper, method, getattr(function, method))


class TypedFunction:
    """Base of wrappers around a user's function: forwards `open` and `close`, pickles as function and type."""

    method = ""

    def __init__(self, function: Any, kind: TypeInformation | None) -> None:
        self.function = function
        self.kind = kind
        self._convert: Callable[[Any], Any] | None = None
        self._call: Any = getattr(function, self.method, None) or function
        forward_checkpoints(self, function)

    def open(self, runtime_context: Any) -> None:
        """Open the user's function if it can be opened."""
        opener = getattr(self.function, "open", None)
        if callable(opener):
            opener(runtime_context)

    def close(self) -> None:
        """Close the user's function if it can be closed."""
        closer = getattr(self.function, "close", None)
        if callable(closer):
            closer()

    def _all(self, results: Iterable[Any]) -> Iterable[Any]:
        return results

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.function, self.kind)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.function!r}, {self.kind!r})"


def converter(_kind: TypeInformation | None) -> None:
    """Return None: values are converted when they are emitted."""


def typed_window(function: Any, _kind: TypeInformation | None) -> Any:
    """Return the window function as it is: values are converted when they are emitted."""
    return function
