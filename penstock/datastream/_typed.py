"""What a declared type does to the values of an operator.

PyFlink encodes values by their declared types on the way to the next operator, so that a tuple declared as a row arrives
as a Row with field names, a list declared as a tuple as a tuple, an int declared as a double as a float. Penstock hands
Python objects over as they are; these wrappers do the same to the values whose declared type makes a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock.common.type_information import BasicType, BasicTypeInfo, TypeInformation
from penstock.common.typeinfo import RowTypeInfo, TupleTypeInfo
from penstock.common.typeinfo import check_type as check_type_information
from penstock.common.types import Row
from penstock.datastream.output_tag import OutputTag

Convert = Callable[[Any], Any]


def check_type(type_info: Any, what: str = "output_type") -> Any:
    """Return a declared type, a row type for a list of types, or None where nothing is declared."""
    if type_info is None:
        return None
    if isinstance(type_info, list):
        return RowTypeInfo(type_info)
    return check_type_information(type_info, what)


def converter(kind: TypeInformation | None) -> Convert | None:
    """Return what values of a type go through, or None where they may stay as they are.

    >>> from penstock.common.typeinfo import Types
    >>> converter(Types.ROW_NAMED(["id"], [Types.INT()]))((1,))
    Row(id=1)
    >>> converter(Types.LONG()) is None
    True
    """
    if isinstance(kind, RowTypeInfo):
        if any(converter(field) is not None for field in kind.get_field_types()):
            return kind.validate
        return _row_converter(kind)
    if isinstance(kind, TupleTypeInfo):
        if any(converter(field) is not None for field in kind.get_field_types()):
            return kind.validate
        size = len(kind.get_field_types())
        return lambda value: (
            value if type(value) is tuple and len(value) == size else kind.validate(value)
        )
    if isinstance(kind, BasicTypeInfo):
        if kind.basic_type is BasicType.DOUBLE:
            return lambda value: (
                value if type(value) is float or value is None else kind.validate(value)
            )
        if kind.basic_type is BasicType.FLOAT:
            return lambda value: None if value is None else kind.validate(value)
    return None


def _row_converter(kind: RowTypeInfo) -> Convert:
    names = tuple(kind.get_field_names())
    size = len(names)

    def convert(value: Any) -> Any:
        if type(value) is Row:
            fields = value._fields
            if fields == names:
                return value
            if fields is None and len(value) == size:
                value._fields = names
                return value
        return kind.validate(value)

    return convert


def forward_checkpoints(wrapper: Any, function: Any) -> None:
    """Give a wrapper the methods of a CheckpointedFunction if the user's function has them."""
    for method in ("initialize_state", "snapshot_state"):
        if callable(getattr(function, method, None)):
            setattr(wrapper, method, getattr(function, method))


class TypedFunction:
    """Base of the wrappers: forwards `open` and `close`, pickles as function and type."""

    method = ""

    def __init__(self, function: Any, kind: TypeInformation) -> None:
        self.function = function
        self.kind = kind
        self._convert: Any = converter(kind)
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

    def _all(self, results: Iterable[Any]) -> Iterator[Any]:
        convert = self._convert
        for result in results:
            if type(result) is tuple and len(result) == 2 and isinstance(result[0], OutputTag):
                tag, value = result
                side = converter(tag.type_info)
                yield (tag, value) if side is None else (tag, side(value))
            else:
                yield convert(result)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.function, self.kind)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.function!r}, {self.kind!r})"


class TypedMap(TypedFunction):
    """A map function with a declared type."""

    method = "map"

    def map(self, value: Any) -> Any:
        """Return what the user's function returns, as the type holds it."""
        return self._convert(self._call(value))


class TypedFlatMap(TypedFunction):
    """A flat map function with a declared type."""

    method = "flat_map"

    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Yield what the user's function yields, as the type holds it."""
        results = self._call(value)
        return None if results is None else self._all(results)


class TypedProcess(TypedFunction):
    """A process function, keyed or not, with a declared type."""

    method = "process_element"

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Yield what the user's function yields, as the type holds it."""
        results = self._call(value, ctx)
        return None if results is None else self._all(results)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any] | None:
        """Yield what the user's function yields, as the type holds it."""
        react = getattr(self.function, "on_timer", None)
        results = None if react is None else react(timestamp, ctx)
        return None if results is None else self._all(results)


class TypedWindow(TypedFunction):
    """A window function in the operator's shape, with a declared type; without one, its elements are emitted."""

    method = "process"

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any] | None:
        """Yield what the user's function yields, as the type holds it."""
        results = elements if self.function is None else self._call(key, context, elements)
        return None if results is None else self._all(results)

    def clear(self, context: Any) -> None:
        """Let the user's function clear the window's state if it wants to."""
        if self.function is not None:
            self.function.clear(context)


def typed_map(function: Any, kind: TypeInformation | None) -> Any:
    """Return the function, wrapped if its declared type makes a difference."""
    return function if kind is None or converter(kind) is None else TypedMap(function, kind)


def typed_flat_map(function: Any, kind: TypeInformation | None) -> Any:
    """Return the function, wrapped if its declared type makes a difference."""
    return function if kind is None or converter(kind) is None else TypedFlatMap(function, kind)


def typed_process(function: Any, kind: TypeInformation | None) -> Any:
    """Return the function, wrapped if its declared type makes a difference."""
    return function if kind is None or converter(kind) is None else TypedProcess(function, kind)


def typed_window(function: Any, kind: TypeInformation | None) -> Any:
    """Return the window function, wrapped if its declared type makes a difference."""
    return function if kind is None or converter(kind) is None else TypedWindow(function, kind)
