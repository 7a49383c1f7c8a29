"""Tables as HTML for notebooks. All text is escaped, and what is shown is limited."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from penstock.common.types import Row
from penstock.sql.results.printing import text_of
from penstock.sql.results.resolved_schema import ResolvedSchema

MOST_ROWS: Final = 20
MOST_STATEMENT_ROWS: Final = 500  # of SHOW and DESCRIBE
MOST_COLUMNS: Final = 50
WIDEST: Final = 100  # letters of a value
_CUT: Final = "…"


def html_table(
    names: Sequence[str],
    rows: Iterable[Sequence[str]],
    note: str = "",
    *,
    widest: int = WIDEST,
) -> str:
    """Return a table with a note below it; columns beyond the limit are left out, and long values cut.

    >>> html_table(["a<b"], [["<script>"]])
    '<table><thead><tr><th>a&lt;b</th></tr></thead><tbody><tr><td>&lt;script&gt;</td></tr></tbody></table>'
    """
    hidden = len(names) - MOST_COLUMNS
    head = _cells("th", names, widest)
    body = "".join(f"<tr>{_cells('td', row, widest)}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    notes = [note] if note else []
    if hidden > 0:
        notes.append(f"{hidden} more columns")
    return table + (_note(", ".join(notes)) if notes else "")


def _note(text: str) -> str:
    return f"<p><small>{escape(text)}</small></p>"


def _cells(tag: str, texts: Sequence[str], widest: int) -> str:
    shown = list(texts[:MOST_COLUMNS])
    if len(texts) > MOST_COLUMNS:
        shown.append(_CUT)
    return "".join(f"<{tag}>{_cell(text, widest)}</{tag}>" for text in shown)


def _cell(text: str, widest: int) -> str:
    cut = text if len(text) <= widest else text[: widest - 1] + _CUT
    return escape(cut)


def html_text(text: str) -> str:
    """Return text of several lines, such as a plan, as it is."""
    return f"<pre>{escape(text)}</pre>"


def html_details(title: str, inside: str) -> str:
    """Return HTML that is shown once its title is clicked."""
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"


def html_result(schema: ResolvedSchema, rows: Sequence[Row] | None, *, raw: bool) -> str:
    """Return the result of a statement; `rows` is None if a job makes them, and `raw` if they are text, such as a plan."""
    if rows is None:
        return html_schema(schema) + _note("the query runs: print() or collect() its rows")
    names = schema.get_column_names()
    if raw:
        return html_text("\n".join(str(row[0]) for row in rows))
    kinds = schema.get_column_data_types()
    texts = [
        [
            "" if value is None else text_of(value, kind)
            for value, kind in zip(row, kinds, strict=True)
        ]
        for row in rows[:MOST_STATEMENT_ROWS]
    ]
    hidden = len(rows) - len(texts)
    return html_table(names, texts, f"{hidden:,} more rows" if hidden else "")


def html_schema(schema: ResolvedSchema) -> str:
    """Return the columns of a table with their types."""
    pairs = zip(schema.get_column_names(), schema.get_column_data_types(), strict=True)
    return html_table(["column", "type"], [(name, str(kind)) for name, kind in pairs])
