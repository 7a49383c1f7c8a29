"""Full-screen view of a running query: an updating table, or the changelog."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import Application
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.styles import Style

from penstock.cli.sql.client import cancel
from penstock.sql.results.printing import display_width, text_of
from penstock.sql.results.result_models import ChangesModel, TableModel

if TYPE_CHECKING:
    from penstock.table import TableResult

_WIDEST = 40
_REFRESH_S = 0.1
_FRAME_LINES = 4  # header, its line, an empty line, the footer
_COLOURS = {"+I": "class:insert", "+U": "class:update", "-U": "class:old", "-D": "class:delete"}
_STYLE = Style.from_dict(
    {
        "head": "bold reverse",
        "foot": "reverse",
        "insert": "ansigreen",
        "update": "ansiyellow",
        "old": "ansibrightblack",
        "delete": "ansired",
    }
)


class View:
    """The screen: the column names, the visible rows, and a status line."""

    def __init__(self, names: Sequence[str], *, changes: bool) -> None:
        self.model: TableModel | ChangesModel = ChangesModel() if changes else TableModel()
        self.state = "running"
        self.error: BaseException | None = None
        self._names = list(names)
        self._changes = changes
        self._top = 0
        self._left = 0  # columns that are scrolled out on the left
        self.follow = changes  # whether the view stays at the last rows
        self._lock = threading.Lock()

    def add(self, kind: str, row: tuple[str, ...]) -> None:
        """Apply a change."""
        with self._lock:
            self.model.add(kind, row)

    def end(self, state: str, error: BaseException | None = None) -> None:
        """Set the final state: no more changes follow."""
        self.state, self.error = state, error

    def scroll(self, lines: int, height: int) -> None:
        """Scroll by lines; at the end, a changelog follows new rows."""
        with self._lock:
            last = max(len(self.model.rows()) - height, 0)
        top = last if self.follow else self._top
        self._top = min(max(top + lines, 0), last)
        self.follow = self._changes and self._top >= last

    def shift(self, columns: int) -> None:
        """Scroll by columns."""
        self._left = min(max(self._left + columns, 0), len(self._names) - 1)

    def render(self, width: int, height: int) -> list[tuple[str, str]]:
        """Return the screen as styled text."""
        with self._lock:
            rows = self.model.rows()
            changes = self.model.changes
        page_height = max(height - _FRAME_LINES, 1)
        last = max(len(rows) - page_height, 0)
        top = last if self.follow else min(self._top, last)
        shown = rows[top : top + page_height]
        left = self._left
        widths = self._widths(shown)[left:]
        screen = [
            ("class:head", _line(self._names[left:], widths, width, "op" if self._changes else "")),
            ("", "\n"),
        ]
        for kind, row in shown:
            label = kind if self._changes else ""
            screen.append((_COLOURS.get(kind, ""), _line(row[left:], widths, width, label)))
            screen.append(("", "\n"))
        screen.extend([("", "\n")] * (page_height - len(shown)))
        here = f"{top + 1}-{top + len(shown)} of {len(rows)} rows" if rows else "no rows"
        foot = f" {here}, {changes} changes, {self.state} {time.strftime('%H:%M:%S')}  q: quit  arrows, page keys: scroll "
        screen.append(("class:foot", foot[:width].ljust(width)))
        return screen

    def _widths(self, rows: list[tuple[str, tuple[str, ...]]]) -> list[int]:
        widths = [display_width(name) for name in self._names]
        for _, row in rows:
            for index, text in enumerate(row):
                widths[index] = max(widths[index], min(display_width(text), _WIDEST))
        return widths


def _line(texts: Sequence[str], widths: list[int], width: int, kind: str) -> str:
    cells = [_fit(text, size) for text, size in zip(texts, widths, strict=True)]
    line = "  ".join(cells)
    return (f"{kind:<3} {line}" if kind else line)[:width].ljust(width)


def _fit(text: str, width: int) -> str:
    text = text.replace("\n", "\\n")
    if display_width(text) > width:
        kept = ""
        for letter in text:
            if display_width(kept) + display_width(letter) > width - 1:
                break
            kept += letter
        text = f"{kept}…"
    return text + " " * (width - display_width(text))


def show(result: TableResult, mode: str) -> None:
    """Show the rows of a query until q is pressed; then cancel the query if it still runs."""
    schema = result.get_resolved_schema()
    view = View(schema.get_column_names(), changes=mode == "changelog")
    application = _application(view)
    reader = threading.Thread(target=_read, args=(result, view), daemon=True)
    reader.start()
    try:
        application.run()
    finally:
        cancel(result)
        reader.join(5)
    if view.error is not None:
        raise view.error


def _read(result: TableResult, view: View) -> None:
    types = result.get_resolved_schema().get_column_data_types()
    try:
        for row in result.collect():
            texts = tuple(
                "NULL" if value is None else text_of(value, kind)
                for value, kind in zip(row, types, strict=True)
            )
            view.add(str(row.get_row_kind()), texts)
    except BaseException as error:  # noqa: BLE001 - raised again when the view is closed
        if view.state == "running":
            view.end("failed", error)
    else:
        view.end("finished")


def _application(view: View) -> Application[None]:
    bindings = KeyBindings()

    def page_height() -> int:
        return max(int(application.output.get_size().rows) - _FRAME_LINES, 1)

    def _leave(event: KeyPressEvent) -> None:
        if view.state == "running":
            view.state = "cancelled"
        event.app.exit()

    for key in ("q", "Q", "escape", "c-c", "c-d"):
        bindings.add(key)(_leave)
    for key, lines in (("up", -1), ("down", 1), ("k", -1), ("j", 1)):
        bindings.add(key)(_scrolling(view, page_height, lines, pages=False))
    for key, columns in (("left", -1), ("right", 1), ("h", -1), ("l", 1)):
        bindings.add(key)(_shifting(view, columns))
    for key, lines in (("pageup", -1), ("pagedown", 1), (" ", 1)):
        bindings.add(key)(_scrolling(view, page_height, lines, pages=True))
    for key, lines in (("home", -(10**9)), ("g", -(10**9)), ("end", 10**9), ("G", 10**9)):
        bindings.add(key)(_scrolling(view, page_height, lines, pages=False))

    def text() -> Any:
        size = application.output.get_size()
        return view.render(size.columns, size.rows)

    application: Application[None] = Application(
        layout=Layout(HSplit([Window(FormattedTextControl(text), wrap_lines=False)])),
        key_bindings=bindings,
        full_screen=True,
        refresh_interval=_REFRESH_S,
        style=_STYLE,
    )
    return application


def _shifting(view: View, columns: int) -> Any:
    def shift(_: KeyPressEvent) -> None:
        view.shift(columns)

    return shift


def _scrolling(view: View, page_height: Any, lines: int, *, pages: bool) -> Any:
    def scroll(_: KeyPressEvent) -> None:
        view.scroll(lines * page_height() if pages else lines, page_height())

    return scroll
