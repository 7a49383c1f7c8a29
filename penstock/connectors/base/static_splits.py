"""The enumerator of sources whose splits are known when the job starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from penstock.common.user_types import StateValue
from penstock.connectors.base.source import SourceSplit, SplitEnumerator, SplitProgress


class StaticSplitEnumerator(SplitEnumerator):
    """An enumerator whose splits are all known when the job starts; a restored one has none left.

    `left` returns how much of a split is left to read, in `unit`.
    """

    def __init__(
        self,
        splits: Iterable[SourceSplit],
        restored: StateValue = None,
        *,
        left: Callable[[SplitProgress], int] | None = None,
        unit: str = "records",
    ) -> None:
        self._splits: list[SourceSplit] = [] if restored is not None else list(splits)
        self._left = left
        self.backlog_unit = unit

    def discover(self) -> list[SourceSplit]:
        """Return all splits, at the first call."""
        found, self._splits = self._splits, []
        return found

    def no_more_splits(self) -> bool:
        """Whether all splits were assigned."""
        return not self._splits

    def snapshot(self) -> StateValue:
        """Return a marker: the splits are already in the checkpoint."""
        return None if self._splits else "planned"

    def backlog(self, splits: Sequence[SplitProgress]) -> int | None:
        """Return how much is left to read."""
        return None if self._left is None else sum(map(self._left, splits))
