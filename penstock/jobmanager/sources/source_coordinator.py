"""The coordinator of a source on the driver: discovers splits, assigns them to subtasks, tracks their positions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.checkpoint.manifest import SourceSnapshot
from penstock.checkpoint.messages import SourcePlan
from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceAssignment,
    SourceSplit,
    SplitEnumerator,
    SplitProgress,
)
from penstock.graph.task_id import TaskId
from penstock.runtime.inspection.requests import SplitTime

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DiscoveredSplits:
    """The result of a split discovery, and the state of the enumerator after it."""

    splits: tuple[SourceSplit, ...]
    state: Any
    no_more_splits: bool
    finished: tuple[SplitProgress, ...] = ()  # the finished splits that the state includes


@dataclass(frozen=True, slots=True)
class _UnreportedSplits:
    """An enumerator's state, and the finished splits that it does not include yet."""

    state: Any
    finished: tuple[SplitProgress, ...]


class SourceCoordinator:
    """Assigns the splits of one source to its subtasks.

    A split stays with its subtask until it is finished; finished splits are removed, because the enumerator knows that they were
    discovered. On rescale the splits are redistributed.

    A split that is discovered twice is not read twice: unfinished splits are known by their id, and after a bounded source has reported
    that there are no more splits, later ones are ignored. Redelivered records are dropped in tasks
    (`penstock/runtime/operators/connectors/redelivery.py`).

    In pipelined mode another thread discovers splits (`look`). Checkpoints include only results that were passed to `take`.
    """

    def __init__(self, operator_id: str, vertex: str, source: Source, parallelism: int) -> None:
        self.operator_id = operator_id
        self.vertex = vertex
        self.source = source
        self.parallelism = parallelism
        self.bounded = source.get_boundedness() is Boundedness.BOUNDED
        #: None until `restore` and after `close`
        self._enumerator: SplitEnumerator | None = None
        #: The unfinished splits by subtask; a split id occurs once
        self._splits: list[list[SplitProgress]] = []
        #: Whether all splits were discovered, as of the next checkpoint; never reset but by `restore`
        self._complete = False
        #: Whether a split that was discovered twice was logged since the last restore
        self._warned = False
        #: Whether redelivered records were logged
        self._redelivered = False
        #: Ids of finished splits, until a completed checkpoint includes them
        self._ended: set[str] = set()
        #: Splits that are finished in a durable checkpoint, until the enumerator's state includes them, if it needs them
        self._finished: tuple[SplitProgress, ...] = ()
        #: The last result that was passed to `take`, in pipelined mode
        self._taken: DiscoveredSplits | None = None
        #: Guards calls of the enumerator: another thread may be in one
        self._looking = threading.Lock()
        #: The last known answers of the enumerator, for while it is busy
        self._last_backlog: int | None = None
        self._had_data = True

    def restore(self, snapshot: SourceSnapshot | None, *, foreign: bool = False) -> None:
        """Restore a checkpoint, or start without state; a `foreign` checkpoint is another job's."""
        before = self._enumerator
        self.close()
        self._taken = None
        self._ended = set()
        self._looking = threading.Lock()  # a discovery of the previous enumerator may still run
        self._finished = ()
        restored = snapshot.load_enumerator() if snapshot is not None else None
        if isinstance(restored, _UnreportedSplits):
            restored, self._finished = restored.state, restored.finished
        if foreign and restored is not None:
            restored = self.source.adopt_enumerator(restored)
        self._enumerator = self.source.create_enumerator(self.parallelism, restored)
        if restored is None and before is not None:
            # The checkpoint, if there is one, was complete before the enumerator's first look: that one counts.
            self._enumerator.take_over(before)
        self._splits = [[] for _ in range(self.parallelism)]
        # Another job may have read other splits under the same operator id.
        self._complete = snapshot is not None and snapshot.complete and not foreign
        self._warned = False
        if snapshot is None:
            return
        for subtask in range(snapshot.parallelism):
            splits = snapshot.load_splits(subtask)
            self._keep_finished(splits)
            unfinished = [split for split in splits if not split.finished]
            if foreign:
                unfinished = [
                    replace(progress, split=self.source.adopt_split(progress.split))
                    for progress in unfinished
                ]
            if snapshot.parallelism == self.parallelism:
                self._splits[subtask] = unfinished
            else:
                for split in unfinished:
                    self._assign(split)

    def prepare(self, interrupted: Callable[[], bool]) -> None:
        """Let the enumerator prepare itself, before the tasks of the job are deployed."""
        assert self._enumerator is not None
        self._enumerator.prepare(interrupted)

    def _keep_finished(self, progress: Sequence[SplitProgress]) -> None:
        assert self._enumerator is not None
        if type(self._enumerator).observe_finished is not SplitEnumerator.observe_finished:
            self._finished += tuple(each for each in progress if each.finished)

    def discover(self) -> None:
        """Discover new splits and assign them."""
        self._add(self._find(self._finished))
        self._finished = ()

    def _find(self, finished: tuple[SplitProgress, ...]) -> tuple[SourceSplit, ...]:
        enumerator = self._enumerator
        assert enumerator is not None
        enumerator.observe([each.split for splits in self._splits for each in self._open(splits)])
        if finished:
            enumerator.observe_finished(finished)
        return tuple(enumerator.discover())

    def _add(self, found: Sequence[SourceSplit]) -> list[tuple[int, SplitProgress]]:
        reading = {each.split.split_id for splits in self._splits for each in splits}
        added = []
        for split in found:
            if self._complete or split.split_id in reading:
                self._ignore(split)
                continue
            reading.add(split.split_id)
            progress = SplitProgress(split=split, position=split.start)
            added.append((self._assign(progress), progress))
        return added

    def begin_looking(self) -> None:
        """Switch to discovery by `look` and `take`; currently known are the restored splits."""
        assert self._enumerator is not None
        self._taken = DiscoveredSplits(
            (), self._enumerator.snapshot(), self._enumerator.no_more_splits()
        )

    def look(self) -> DiscoveredSplits:
        """Discover new splits. By any thread, one at a time; nothing changes until the result is passed to `take`."""
        enumerator = self._enumerator
        assert enumerator is not None
        with self._looking:
            finished = self._finished
            splits = self._find(finished)
            return DiscoveredSplits(
                splits, enumerator.snapshot(), enumerator.no_more_splits(), finished
            )

    def take(self, found: DiscoveredSplits) -> dict[TaskId, SourceAssignment]:
        """Assign discovered splits; return the new assignments by task."""
        before = self.assignments()
        added = self._add(found.splits)
        self._taken = found
        known = set(map(id, found.finished))
        self._finished = tuple(each for each in self._finished if id(each) not in known)
        return self._changes(before, added)

    def _changes(
        self, before: dict[TaskId, SourceAssignment], added: list[tuple[int, SplitProgress]]
    ) -> dict[TaskId, SourceAssignment]:
        new = {}
        for task, now in self.assignments().items():
            splits = [each for subtask, each in added if subtask == task.subtask]
            if (
                splits
                or now.no_more_splits != before[task].no_more_splits
                or now.idle != before[task].idle
            ):
                new[task] = replace(now, splits=splits)
        return new

    def _ignore(self, split: SourceSplit) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "source '%s' discovered split '%s' twice: it is not read again. The state of SplitEnumerator.snapshot should "
                "include the discovered splits",
                self.operator_id,
                split.split_id,
            )

    def on_finished(self, subtask: int, splits: Sequence[str]) -> dict[TaskId, SourceAssignment]:
        """Record that a subtask has finished splits; return the new assignments by task.

        They are part of checkpoints until a completed one includes their end. Meanwhile a hybrid source can switch to its next source, and
        a subtask without splits does not hold back the watermark of others.
        """
        before = self.assignments()
        self._ended.update(splits)
        return self._changes(before, [])

    def _open(self, splits: Sequence[SplitProgress]) -> Sequence[SplitProgress]:
        """Return the unfinished splits."""
        if not self._ended:
            return splits
        return [each for each in splits if each.split.split_id not in self._ended]

    def _assign(self, progress: SplitProgress) -> int:
        least_loaded = min(
            range(self.parallelism), key=lambda subtask: len(self._open(self._splits[subtask]))
        )
        self._splits[least_loaded].append(progress)
        return least_loaded

    def has_data(self) -> bool:
        """Whether an epoch now may read records."""
        assert self._enumerator is not None
        open_splits = [split for splits in self._splits for split in splits]
        if self.bounded:
            return bool(open_splits)
        if self._looking.acquire(blocking=False):  # an enumerator is used by one thread at a time
            try:
                self._had_data = self._enumerator.has_data([each.position for each in open_splits])
            finally:
                self._looking.release()
        return self._had_data

    def backlog(self) -> int | None:
        """Return the approximate backlog in `backlog_unit`, or None if unknown."""
        assert self._enumerator is not None
        if self._looking.acquire(blocking=False):
            try:
                open_splits = [split for splits in self._splits for split in splits]
                self._last_backlog = self._enumerator.backlog(open_splits)
            finally:
                self._looking.release()
        return self._last_backlog

    def split_times(self) -> dict[TaskId, tuple[SplitTime, ...]]:
        """Return the watermarks of splits at the last checkpoint, by task. Thread-safe."""
        return {
            TaskId(self.vertex, subtask): tuple(
                SplitTime(each.split.split_id, each.watermark, each.idle, not each.idle)
                for each in list(splits)
                if not each.finished
            )
            for subtask, splits in enumerate(list(self._splits))
        }

    @property
    def backlog_unit(self) -> str:
        """The unit of the backlog."""
        assert self._enumerator is not None
        return self._enumerator.backlog_unit

    @property
    def no_more_splits(self) -> bool:
        """Whether all splits have been discovered."""
        assert self._enumerator is not None
        if self._taken is not None:
            return self.bounded and self._taken.no_more_splits
        return self.bounded and self._enumerator.no_more_splits()

    def plan(self) -> SourcePlan:
        """Return the source's part of the next checkpoint."""
        assert self._enumerator is not None
        self._complete = self._complete or self.no_more_splits
        state = self._enumerator.snapshot() if self._taken is None else self._taken.state
        return SourcePlan(
            enumerator=_UnreportedSplits(state, self._finished) if self._finished else state,
            splits={subtask: tuple(splits) for subtask, splits in enumerate(self._splits)},
            complete=self._complete,
        )

    def assignments(self, *, drain: bool = False) -> dict[TaskId, SourceAssignment]:
        """Return the assignments of the next epoch, by task."""
        any_splits = any(map(self._open, self._splits))
        done = self.no_more_splits
        return {
            TaskId(self.vertex, subtask): SourceAssignment(
                splits=list(splits),
                no_more_splits=done,
                idle=any_splits and not self._open(splits) and not done,
                drain=drain,
            )
            for subtask, splits in enumerate(self._splits)
        }

    def advance(
        self, subtask: int, progress: Sequence[SplitProgress], redelivered: int = 0
    ) -> None:
        """Update the positions of a subtask after a completed checkpoint, and the number of redelivered records it has dropped.

        Splits that were assigned after the barrier are not in its progress, and keep their positions.
        """
        reported = {each.split.split_id for each in progress}
        later = [each for each in self._splits[subtask] if each.split.split_id not in reported]
        self._splits[subtask] = [each for each in progress if not each.finished] + later
        self._ended.difference_update(each.split.split_id for each in progress if each.finished)
        self._keep_finished(progress)
        if redelivered and not self._redelivered:
            self._redelivered = True
            _log.info(
                "source '%s' dropped %d redelivered records that it had read before, and will drop further ones; "
                "see the metric numRecordsRedelivered",
                self.operator_id,
                redelivered,
            )

    def on_checkpoint(self, progress: Sequence[SplitProgress]) -> None:
        """Notify the enumerator of the positions in a durable checkpoint. The job does not depend on its reaction."""
        assert self._enumerator is not None
        try:
            self._enumerator.on_checkpoint(progress)
        except Exception:  # noqa: BLE001 - the job does not depend on it
            _log.warning(
                "source '%s' failed to process a checkpoint notification; the job continues",
                self.operator_id,
                exc_info=True,
            )

    def close(self) -> None:
        """Close the enumerator."""
        if self._enumerator is not None:
            self._enumerator.close()
            self._enumerator = None

    def __repr__(self) -> str:
        found: list[Any] = [len(splits) for splits in self._splits]
        return f"SourceCoordinator({self.operator_id}, splits by subtask {found})"
