"""The splits that are assigned to a source subtask, and what is known about each."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.connectors.base.source import Boundedness, Source, SplitProgress
from penstock.runtime.operators.connectors.split_schedulers import SplitReading


class SourceSplits:
    """The assigned splits of a subtask, in order of assignment."""

    def __init__(self, source: Source, now: int) -> None:
        #: Finished splits are kept until a durable checkpoint contains them as finished.
        self.readings: list[SplitReading] = []
        #: Whether the source ends. Then all of its splits end, too.
        self.bounded = source.get_boundedness() is Boundedness.BOUNDED
        #: Whether no split will be assigned any more.
        self.no_more = False
        #: Whether the job is drained: nothing is read any more, whatever is assigned.
        self.drained = False
        #: When the last split ended; when the subtask opened, if it has had none.
        self.vacant_since_ms = now
        self._on_demand = self.bounded and source.assigns_on_demand
        self._newly_finished: list[str] = []

    @property
    def finished(self) -> bool:
        """Whether this subtask has read all its input."""
        return self.drained or (
            self.bounded and self.no_more and all(split.finished for split in self.readings)
        )

    @property
    def all_assigned(self) -> bool:
        """Whether no split is held back by the enumerator: the watermark has to wait for those, too."""
        return self.no_more or not self._on_demand

    def unfinished(self) -> list[SplitReading]:
        """Return the splits that have not ended."""
        return [split for split in self.readings if not split.finished]

    def find(self, split_id: str | None) -> SplitReading | None:
        """Return an unfinished split by its id."""
        for split in self.readings:
            if split.progress.split.split_id == split_id and not split.finished:
                return split
        return None

    def finish(self, split: SplitReading, now: int) -> None:
        """Mark a split as finished."""
        split.finished = True
        self.vacant_since_ms = now
        self._newly_finished.append(split.progress.split.split_id)

    @property
    def has_newly_finished(self) -> bool:
        """Whether splits have ended since the last `take_newly_finished`."""
        return bool(self._newly_finished)

    def take_newly_finished(self) -> list[str]:
        """Return the ids of the splits that have ended since the last call."""
        found, self._newly_finished = self._newly_finished, []
        return found

    def progress(self, checkpoint: int, order: Sequence[SplitReading]) -> list[SplitProgress]:
        """Return the progress of all splits, in this order, for a checkpoint."""
        for split in self.readings:
            if split.finished and split.reported is None:
                split.reported = checkpoint
        return [split.to_progress() for split in order]

    def drop_reported(self, checkpoint: int) -> None:
        """Drop the splits that a durable checkpoint contains as finished."""
        if any(_is_reported(split, checkpoint) for split in self.readings):
            self.readings = [
                split for split in self.readings if not _is_reported(split, checkpoint)
            ]

    def last_active_ms(self) -> int | None:
        """Return when a record was last read, of all splits; None if there are none."""
        return max((split.active_ms for split in self.readings), default=None)


def _is_reported(split: SplitReading, checkpoint: int) -> bool:
    return split.reported is not None and split.reported <= checkpoint
