"""Collects what user code returns or yields, sorted to the main output and side outputs."""

from __future__ import annotations

from typing import Any

from penstock.runtime.operators.base import Output
from penstock.runtime.records import Batch

_FLUSH_AT = 4096


class Collector:
    """Gathers results until `flush`; a result `(tag, value)` with an OutputTag goes to that side output."""

    __slots__ = ("_output", "_side", "_timestamps", "_values")

    def __init__(self, output: Output) -> None:
        self._output = output
        self._values: list[Any] = []
        self._timestamps: list[int | None] = []
        self._side: dict[str, tuple[list[Any], list[int | None]]] = {}

    def add_all(self, results: Any, timestamp: int | None) -> None:
        """Take the return value of a user function: an iterable, or None."""
        if results is None:
            return
        values, timestamps = self._values, self._timestamps
        for result in results:
            if type(result) is tuple and len(result) == 2 and hasattr(result[0], "tag_id"):
                self.add_side(result[0].tag_id, result[1], timestamp)
            else:
                values.append(result)
                timestamps.append(timestamp)
        if len(values) >= _FLUSH_AT:
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
            self._output.emit(Batch(values, timestamps))
        if self._side:
            side, self._side = self._side, {}
            for tag, (values, timestamps) in side.items():
                self._output.emit_side(tag, Batch(values, timestamps))
