"""Notices functions that return one value where several results are expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.common.suspicious_records import RESULTS, SuspicionCounter, counted
from penstock.common.types import Row
from penstock.common.user_errors import shorten

# What functions return in place of several results, and what becomes a record instead.
ITERATED: Final[Mapping[type, str]] = {
    str: "one for each character",
    bytes: "one for each byte",
    bytearray: "one for each byte",
    dict: "one for each key",
    Row: "one for each field",
}


class ResultCheck:
    """Takes note of functions that return one value where several results are expected.

    PyFlink iterates over whatever a function returns, and so it is here: a text becomes a record for each of its characters. Hardly any program means
    that. A tuple may well be several results, so nothing is said about tuples. Nor about what is empty, which gives no record, as None does, and
    about a single character, which gives itself.
    """

    def __init__(self, group: Any) -> None:
        self._counter = SuspicionCounter(group)

    def note(self, result: Any) -> None:
        """Take note of a result whose type is one of `ITERATED`."""
        if not result or (type(result) is str and len(result) == 1):
            return
        parts = ITERATED[type(result)]
        shown = f"{shorten(result, 60)} became {counted(len(result), 'record')}, {parts}"
        self._counter.count(RESULTS, 1, shown)
