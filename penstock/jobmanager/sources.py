"""The driver's side of a source: finds splits, gives each to a subtask, keeps how far they were read."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.checkpoint.manifest import SourceSnapshot
from penstock.checkpoint.messages import SourcePlan
from penstock.connectors.source import (
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
class Discovered:
    """What a look for splits has found, and what the enumerator remembers after it."""

    splits: tuple[SourceSplit, ...]
    state: Any
    no_more_splits: bool
    told: tuple[SplitProgress, ...] = ()  # the finished splits that the state knows of


@dataclass(frozen=True, slots=True)
class _NotTold:
    """An enumerator's memory, and the finished splits that it does not know of yet."""

    state: Any
    finished: tuple[SplitProgress, ...]


class SourceCoordinator:
    """Plans what each subtask of one source reads in the next epoch.

    A split stays with its subtask until it is finished; finished splits are forgotten, the enumerator knows that they were
    found. After a change of parallelism the splits are dealt out anew.

    A split that is found again is not read again: one that is being read is known by its id, and once a bounded source has said
    that there are no more splits, all that it finds later are old ones. Records that are delivered again are dropped in tasks
    (`penstock/runtime/operators/redelivery.py`).

    Where tasks stay, another thread looks for splits (`look`), for as long as that takes. Checkpoints know of what has been `taken`.
    """

    def __init__(self, operator_id: str, vertex: str, source: Source, parallelism: int) -> None:
        self.operator_id = operator_id
        self.vertex = vertex
        self.source = source
        self.parallelism = parallelism
        self.bounded = source.get_boundedness() is Boundedness.BOUNDED
        self._enumerator: SplitEnumerator | None = None
        self._splits: list[list[SplitProgress]] = []
        self._complete = False  # whether all splits were found, as this epoch's checkpoint will say
        self._warned = False
        self._redelivered = False
        # Ids of splits that have ended, in the time until a complete checkpoint says so.
        self._ended: set[str] = set()
        # Splits that a durable checkpoint knows to be finished, until the enumerator's memory does; if it wants to know.
        self._finished: tuple[SplitProgress, ...] = ()
        self._taken: Discovered | None = None  # the last, if looks are taken one by one
        self._looking = threading.Lock()  # whoever holds it may ask the enumerator
        self._last_backlog: int | None = None
        self._had_data = True

    def restore(self, snapshot: SourceSnapshot | None, *, foreign: bool = False) -> None:
        """Start from a checkpoint, or from the beginning; a `foreign` checkpoint is another job's."""
        before = self._enumerator
        self.close()
        self._taken = None
        self._ended = set()
        self._looking = (
            threading.Lock()
        )  # a look at the enumerator before this one may be under way
        self._finished = ()
        restored = snapshot.load_enumerator() if snapshot is not None else None
        if isinstance(restored, _NotTold):
            restored, self._finished = restored.state, restored.finished
        if foreign and restored is not None:
            restored = self.source.adopt_enumerator(restored)
        self._enumerator = self.source.create_enumerator(self.parallelism, restored)
        if restored is None and before is not None:
            # The checkpoint, if there is one, was complete before the enumerator's first look: that one counts.
            self._enumerator.take_over(before)
        self._splits = [[] for _ in range(self.parallelism)]
        # Another job may have read other things under the same operator id.
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

    def _keep_finished(self, progress: Sequence[SplitProgress]) -> None:
        assert self._enumerator is not None
        if type(self._enumerator).observe_finished is not SplitEnumerator.observe_finished:
            self._finished += tuple(each for each in progress if each.finished)

    def discover(self) -> None:
        """Look for new splits and assign them."""
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
        """From now on splits are found by `look` and `take`; what is known now is what was restored."""
        assert self._enumerator is not None
        self._taken = Discovered((), self._enumerator.snapshot(), self._enumerator.no_more_splits())

    def look(self) -> Discovered:
        """Look for new splits. By any thread, one at a time; nothing changes until what it returns is taken."""
        enumerator = self._enumerator
        assert enumerator is not None
        with self._looking:
            told = self._finished
            splits = self._find(told)
            return Discovered(splits, enumerator.snapshot(), enumerator.no_more_splits(), told)

    def take(self, found: Discovered) -> dict[TaskId, SourceAssignment]:
        """Assign what was found; return, by task, what is new to it."""
        before = self.assignments()
        added = self._add(found.splits)
        self._taken = found
        known = set(map(id, found.told))
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
                "source '%s' found split '%s' again: it is not read again. SplitEnumerator.snapshot should remember "
                "which splits were found",
                self.operator_id,
                split.split_id,
            )

    def on_finished(self, subtask: int, splits: Sequence[str]) -> dict[TaskId, SourceAssignment]:
        """Take note that a subtask has read splits to their end; return, by task, what follows from it.

        They stay part of what checkpoints are told until a complete one knows it. Until then another source can have its turn,
        and a subtask that has nothing to read does not hold back the time of others.
        """
        before = self.assignments()
        self._ended.update(splits)
        return self._changes(before, [])

    def _open(self, splits: Sequence[SplitProgress]) -> Sequence[SplitProgress]:
        """Return those that have not ended."""
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
        if self._looking.acquire(blocking=False):  # an enumerator is asked by one thread at a time
            try:
                self._had_data = self._enumerator.has_data([each.position for each in open_splits])
            finally:
                self._looking.release()
        return self._had_data

    def backlog(self) -> int | None:
        """Return about how much waits, in `backlog_unit`, or None if the source cannot tell."""
        assert self._enumerator is not None
        if self._looking.acquire(blocking=False):
            try:
                open_splits = [split for splits in self._splits for split in splits]
                self._last_backlog = self._enumerator.backlog(open_splits)
            finally:
                self._looking.release()
        return self._last_backlog

    def split_times(self) -> dict[TaskId, tuple[SplitTime, ...]]:
        """Return how far splits had come in event time at the last checkpoint, by task. By any thread."""
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
        """What the backlog counts."""
        assert self._enumerator is not None
        return self._enumerator.backlog_unit

    @property
    def no_more_splits(self) -> bool:
        """Whether all splits have been found."""
        assert self._enumerator is not None
        if self._taken is not None:
            return self.bounded and self._taken.no_more_splits
        return self.bounded and self._enumerator.no_more_splits()

    def plan(self) -> SourcePlan:
        """Return what the checkpoint must know about the next epoch."""
        assert self._enumerator is not None
        self._complete = self._complete or self.no_more_splits
        state = self._enumerator.snapshot() if self._taken is None else self._taken.state
        return SourcePlan(
            enumerator=_NotTold(state, self._finished) if self._finished else state,
            splits={subtask: tuple(splits) for subtask, splits in enumerate(self._splits)},
            complete=self._complete,
        )

    def assignments(self, *, drain: bool = False) -> dict[TaskId, SourceAssignment]:
        """Return what the tasks must know about the next epoch, by task."""
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
        """Take over how far a subtask has read, once the checkpoint is complete, and how many records it has dropped.

        Splits that it was given after the barrier are not in its progress, and stay as they are.
        """
        told = {each.split.split_id for each in progress}
        later = [each for each in self._splits[subtask] if each.split.split_id not in told]
        self._splits[subtask] = [each for each in progress if not each.finished] + later
        self._ended.difference_update(each.split.split_id for each in progress if each.finished)
        self._keep_finished(progress)
        if redelivered and not self._redelivered:
            self._redelivered = True
            _log.info(
                "source '%s' was given %d records again that it had read: they are dropped, now and later. "
                "numRecordsRedelivered counts them",
                self.operator_id,
                redelivered,
            )

    def on_checkpoint(self, progress: Sequence[SplitProgress]) -> None:
        """Let the enumerator know how far a durable checkpoint has read. What it makes of that is nobody's condition."""
        assert self._enumerator is not None
        try:
            self._enumerator.on_checkpoint(progress)
        except Exception:  # noqa: BLE001 - nothing that the job needs depends on it
            _log.warning(
                "source '%s' could not take note of a checkpoint; the job goes on",
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
