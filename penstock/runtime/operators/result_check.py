"""Detects functions that return one value where several results are expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.common.types import Row
from penstock.errors.user_errors import shorten
from penstock.records.suspicious_records import RESULTS, SuspiciousRecordCounter, counted

# Types that functions return instead of several results, and what becomes a record.
ITERATED: Final[Mapping[type, str]] = {
    str: "one for each character",
    bytes: "one for each byte",
    bytearray: "one for each byte",
    dict: "one for each key",
    Row: "one for each field",
}


class ResultCheck:
    """Detects functions that return one value where several results are expected.

    PyFlink iterates over whatever a function returns, and so does Penstock: a string becomes a record for each of its
    characters. That is rarely intended. A tuple may well be several results, so tuples are not reported. Nor are empty values,
    which give no record, like None, or a single character, which gives itself.
    """

    def __init__(self, group: Any) -> None:
        self._counter = SuspiciousRecordCounter(group)

    def note(self, result: Any) -> None:
        """Record a result whose type is one of `ITERATED`."""
        if not result or (type(result) is str and len(result) == 1):
            return
        parts = ITERATED[type(result)]
        shown = f"{shorten(result, 60)} became {counted(len(result), 'record')}, {parts}"
        self._counter.count(RESULTS, 1, shown)
