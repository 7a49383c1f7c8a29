"""Collects what user code returns or yields, sorted to the main output and side outputs."""

from __future__ import annotations

from operator import itemgetter
from types import GeneratorType
from typing import Any, Self

from penstock.common.user_errors import shorten
from penstock.errors import ArgumentTypeError
from penstock.runtime.isolation import isolated
from penstock.runtime.operators.base import OperatorContext, Output
from penstock.runtime.operators.result_check import ITERATED, ResultCheck
from penstock.runtime.records import RowBatch

_FLUSH_AT = 4096
_first = itemgetter(0)


class _TagTypes(dict[type, bool]):
    """Whether a type is that of a side output's tag, found out on first sight.

    The attribute is looked up on the class: a value that answers to every name (a Row) is no tag.
    """

    def __missing__(self, kind: type) -> bool:
        found = self[kind] = getattr(kind, "is_output_tag", False) is True
        return found


_is_tag = _TagTypes()


def has_side_outputs(results: list[Any]) -> bool:
    """Whether any result is `(tag, value)`. Looks at types in bulk: 50 ns a result among tuples, else 20 ns."""
    kinds = set(map(type, results))
    if tuple not in kinds:
        return False
    tuples = results if len(kinds) == 1 else [each for each in results if type(each) is tuple]
    try:
        firsts = set(map(type, map(_first, tuples)))
    except IndexError:  # an empty tuple
        firsts = {type(each[0]) for each in tuples if each}
    return any(_is_tag[kind] for kind in firsts)


def check_iterable(results: Any, error: TypeError) -> None:
    """Say so if a function returned one value where several are expected; `error` is what iterating over it raised."""
    try:
        iter(results)
    except TypeError:
        raise ArgumentTypeError(
            f"the function returned {shorten(results)}, and not several results",
            hint="yield the results, or return a list of them",
        ) from error


class Collector:
    """Gathers results until `flush`; a result `(tag, value)` with an OutputTag goes to that side output.

    `gather` never calls the operators behind, so what it raises is the user's; the others flush when there is much. A `check` takes note of
    functions that return a text, or another single value that is iterated.
    """

    __slots__ = ("_check", "_output", "_side", "_timestamps", "_values")

    def __init__(self, output: Output, check: ResultCheck | None = None) -> None:
        self._output = output
        self._check = check
        self._values: list[Any] = []
        self._timestamps: list[int | None] = []
        self._side: dict[str, tuple[list[Any], list[int | None]]] = {}

    @classmethod
    def of_function(cls, context: OperatorContext) -> Self:
        """Create the collector of an operator whose function returns or yields results."""
        return cls(context.output, ResultCheck(context.runtime_context.get_metrics_group()))

    def check(self, results: Any) -> None:
        """Take note of what a function returned, if it is a single value that is iterated."""
        if self._check is not None and type(results) in ITERATED:
            self._check.note(results)

    def gather(self, results: Any, timestamp: int | None) -> bool:
        """Take the return value of a user function: an iterable, or None; return whether it is time to flush."""
        if results is None:
            return False
        if type(results) is not GeneratorType and type(results) is not list:
            self.check(results)
        values, timestamps = self._values, self._timestamps
        try:
            for result in results:
                if type(result) is tuple and len(result) == 2 and _is_tag[type(result[0])]:
                    self.add_side(result[0].tag_id, isolated(result[1]), timestamp)
                else:
                    values.append(isolated(result))
                    timestamps.append(timestamp)
        except TypeError as error:
            check_iterable(results, error)
            raise
        return len(values) >= _FLUSH_AT

    def add_all(self, results: Any, timestamp: int | None) -> None:
        """Take all results of a user function, or None."""
        if self.gather(results, timestamp):
            self.flush()

    def add(self, value: Any, timestamp: int | None) -> None:
        """Take one record of the main output."""
        self._values.append(value)
        self._timestamps.append(timestamp)
        if len(self._values) >= _FLUSH_AT:
            self.flush()

    def add_side(self, tag: str, value: Any, timestamp: int | None) -> None:
        """Take one record of a side output."""
        side = self._side.get(tag)
        if side is None:
            side = self._side[tag] = ([], [])
        side[0].append(value)
        side[1].append(timestamp)

    def flush(self) -> None:
        """Emit everything gathered."""
        if self._values:
            values, self._values = self._values, []
            timestamps, self._timestamps = self._timestamps, []
            self._output.emit(RowBatch(values, timestamps))
        if self._side:
            side, self._side = self._side, {}
            for tag, (values, timestamps) in side.items():
                self._output.emit_side(tag, RowBatch(values, timestamps))
