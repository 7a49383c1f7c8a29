"""The rows of a running query in a notebook: a thread reads them, and the cell shows them again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from penstock.sql.results.html_tables import html_table
from penstock.sql.results.printing import text_of
from penstock.sql.results.result_models import ChangesModel, TableModel
from penstock.sql.results.table_result import CloseableRows, TableResult

_REFRESH_S: Final = 0.25
_KIND: Final = "op"


class LiveResult:
    """A table that follows a query until it ends, is interrupted, or has had enough changes.

    `show` is called with HTML whenever there is something new. At most `most_rows` rows are shown, those that came last.
    """

    def __init__(
        self,
        result: TableResult,
        show: Callable[[str], None],
        *,
        changelog: bool = False,
        most_rows: int = 20,
        widest: int = 100,
        most_changes: int | None = None,
        zone: str = "UTC",
    ) -> None:
        schema = result.get_resolved_schema()
        self._names = schema.get_column_names()
        self._types = schema.get_column_data_types()
        self._rows = CloseableRows(result.take())
        self._show = show
        self._model: TableModel | ChangesModel = ChangesModel() if changelog else TableModel()
        self._changelog = changelog
        self._most_rows = most_rows
        self._widest = widest
        self._most_changes = most_changes
        self._zone = zone
        #: Guards the model: one thread reads, another one shows
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._error: BaseException | None = None

    def follow(self) -> None:
        """Show the rows until the query ends; Ctrl-C and the stop button of a notebook cancel it."""
        reading = threading.Thread(target=self._read, name="penstock-live-table", daemon=True)
        reading.start()
        state = "finished"
        shown = -1
        try:
            while not self._over.wait(_REFRESH_S):
                if self._model.changes != shown:
                    shown = self._model.changes
                    self._show(self.html("running"))
        except KeyboardInterrupt:
            state = "stopped"
        if self._is_full():
            state = f"stopped after {self._most_changes:,} changes"
        self._rows.close()
        reading.join()
        if self._error is not None and state == "finished":
            self._show(self.html("failed"))
            raise self._error
        self._show(self.html(state))

    def _read(self) -> None:
        try:
            for row in self._rows:
                texts = tuple(
                    text_of(value, kind, self._zone)
                    for value, kind in zip(row, self._types, strict=True)
                )
                with self._lock:
                    self._model.add(str(row.get_row_kind()), texts)
                if self._is_full():
                    break
        except BaseException as error:  # noqa: BLE001 - the thread of the cell raises it
            self._error = error
        finally:
            self._over.set()

    def _is_full(self) -> bool:
        return self._most_changes is not None and self._model.changes >= self._most_changes

    def html(self, state: str) -> str:
        """Return the table as it is now."""
        with self._lock:
            rows, changes = self._model.rows(), self._model.changes
        shown = rows[-self._most_rows :]
        count = (
            f"{len(rows):,} rows"
            if len(rows) == len(shown)
            else f"the last {len(shown):,} of {len(rows):,} rows"
        )
        names: Sequence[str] = self._names
        if self._changelog:
            names = [_KIND, *names]
        cells = [(kind, *row) if self._changelog else row for kind, row in shown]
        return html_table(
            names, cells, f"{count}, {changes:,} changes, {state}", widest=self._widest
        )
