"""State tables organised by window first, for operators.

Windows that end for all keys at once are read and dropped as a whole, without iterating over keys.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final, Protocol

from penstock.runtime.state.table import StateTable

PANE_PREFIX: Final = "panes/"  # prefix of the names of PaneTables


class PaneTable(StateTable, Protocol):
    """Entries by namespace and then by key.

    `touched` has the entries since the last barrier by namespace; `data` has the namespaces that had entries before.
    """

    touched: dict[Any, dict[Any, Any]]

    @property
    def data(self) -> Container[Any]:
        """The namespaces that had entries at the last barrier."""

    def namespaces(self) -> list[Any]:
        """Return all namespaces that have entries."""

    def pane(self, namespace: object) -> tuple[dict[Any, Any], Any]:
        """Return the dictionary to write a namespace's entries to, and an object with `get` for those of earlier intervals."""

    def pop_pane(self, namespace: object) -> dict[Any, Any]:
        """Remove a namespace and return its entries by key."""

    def drop_pane(self, namespace: object) -> None:
        """Remove a namespace without returning its entries."""
