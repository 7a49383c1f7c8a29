"""Detects JSON fields whose names differ from columns only in case: names are matched exactly, so such columns are NULL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from penstock.formats.base.field_types import FieldType
from penstock.formats.json.fast import loads
from penstock.records.suspicious_records import FIELDS, SuspiciousRecordCounter

LOOKED_AT: Final = 100  # records per reader: producers hardly ever change their spelling


class FieldNameCheck:
    """Checks the first records of a reader for columns that are NULL while a field has the same name in another case.

    Fields that are columns themselves do not count: `id` and `ID` may both be columns. Nor do fields of records that also
    have the column's own field, null or not: the producer knows both names, and may omit one of them.
    """

    def __init__(self, row: FieldType, group: Any) -> None:
        self._row = row
        self._counter = SuspiciousRecordCounter(group)
        self._looked = 0
        self._found = False
        self._distinct: set[str] = (
            set()
        )  # columns whose own field was in a record together with such a field

    @property
    def done(self) -> bool:
        """Whether the check is finished."""
        return self._looked >= LOOKED_AT

    def look(self, messages: Iterable[bytes | str | None]) -> None:
        """Check messages; invalid JSON is ignored, as it is reported elsewhere."""
        for message in messages:
            if self.done:
                return
            if message:
                try:
                    document = loads(message)
                except (ValueError, RecursionError):
                    continue
                self.look_at(document)

    def look_at(self, document: object) -> None:
        """Check the object of a record."""
        if self.done:
            return
        self._looked += 1
        others = list(fields_of_other_case(self._row, document))
        self._distinct |= {column for column, _, both in others if both}
        missing = [(column, field) for column, field, _ in others if column not in self._distinct]
        if missing:
            self._found = True
            column, field = missing[0]
            shown = f"column '{column}' is NULL, and the record has a field '{field}'"
            self._counter.count(FIELDS, 1, shown)
        if self._found:
            self._counter.checked(FIELDS, self._looked)


def fields_of_other_case(
    row: FieldType, document: object, path: str = ""
) -> Iterator[tuple[str, str, bool]]:
    """Yield columns, the field with the same name in another case, and whether the column's own field exists, too.

    >>> row = FieldType("ROW", (("userId", FieldType("STRING")), ("at", FieldType("BIGINT"))))
    >>> list(fields_of_other_case(row, {"userid": "ann", "at": 1}))
    [('userId', 'userid', False)]
    """
    if not isinstance(document, dict):
        return
    known = set(row.names)
    others = {
        name.casefold(): name
        for name, value in document.items()
        if name not in known and value is not None
    }
    if others:
        for name in row.names:
            other = others.get(name.casefold())
            if other is not None:
                yield path + name, path + other, name in document
    for name, kind in row.fields:
        if kind.kind == "ROW":
            yield from fields_of_other_case(kind, document.get(name), f"{path}{name}.")
        elif kind.kind == "ARRAY" and kind.fields[0][1].kind == "ROW":
            elements = document.get(name)
            for element in elements if isinstance(elements, list) else ():
                yield from fields_of_other_case(kind.fields[0][1], element, f"{path}{name}.")
