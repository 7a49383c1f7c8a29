"""Sources without an end whose splits are there from the beginning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceSplit,
    SplitEnumerator,
)


class SplitsOnce(SplitEnumerator):
    """Finds its splits once, and never says that there will be no more."""

    def __init__(self, splits: Sequence[SourceSplit], restored: Any) -> None:
        self._splits = splits
        self._found = bool(restored)

    def discover(self) -> Sequence[SourceSplit]:
        found, self._found = self._found, True
        return [] if found else self._splits

    def no_more_splits(self) -> bool:
        return False

    def snapshot(self) -> bool:
        return self._found


class EndlessSource(Source):
    """Base of sources that name their splits and create their readers."""

    def splits(self) -> Sequence[SourceSplit]:
        return [SourceSplit("one", start=0)]

    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism: int, restored: Any = None) -> SplitEnumerator:
        return SplitsOnce(self.splits(), restored)
