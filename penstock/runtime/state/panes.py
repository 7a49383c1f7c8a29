"""State tables organised by window first, as operators see them in every backend.

Windows that end for all keys at once are read and dropped as a whole, without looking at each key.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final, Protocol

from penstock.runtime.state.table import StateTable

PANE_PREFIX: Final = "panes/"  # tables whose names begin so are PaneTables


class PaneTable(StateTable, Protocol):
    """Entries by namespace and then by key.

    `touched` has the entries of this epoch by namespace; in `data` are the namespaces that had entries before it.
    """

    touched: dict[Any, dict[Any, Any]]

    @property
    def data(self) -> Container[Any]:
        """The namespaces that had entries before this epoch."""

    def namespaces(self) -> list[Any]:
        """Return all namespaces that have entries."""

    def pane(self, namespace: Any) -> tuple[dict[Any, Any], Any]:
        """Return the dictionary to write a namespace's entries to, and what answers `get` for those of earlier epochs."""

    def pop_pane(self, namespace: Any) -> dict[Any, Any]:
        """Remove a namespace and return its entries by key."""

    def drop_pane(self, namespace: Any) -> None:
        """Remove a namespace whose entries nobody wants to see."""
