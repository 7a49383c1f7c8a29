"""Committing partitions: which are due, and which wait (pure functions); and the committer that publishes and marks."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.connectors.base.sink import MIN_WATERMARK, CommitRequest
from penstock.connectors.filesystem.committer import (
    CommitPolicy,
    FileCommitter,
    InProgressFile,
    Merge,
    Publication,
    plan_commit,
)
from penstock.connectors.filesystem.table.partition_times import PartitionTimes


@dataclass(frozen=True, slots=True)
class CommitTrigger:
    """When a partition is committed: when the clock has passed its creation by a delay, or, with `times`, the watermark its time. `at_end`: not before the end."""

    delay_ms: int = 0
    times: PartitionTimes | None = None
    at_end: bool = False

    def is_due(self, directory: str, created_ms: int, now_ms: int, watermark: int) -> bool:
        """Whether a partition is to be committed now."""
        if self.at_end:
            return False
        if self.times is not None:
            return watermark > self.times.of(directory) + self.delay_ms
        return self.delay_ms == 0 or now_ms > created_ms + self.delay_ms

    def next_wakeup(self, waiting: WaitingPartitions) -> int | None:
        """Return when the clock will have passed the first partition that waits; None if it is not the clock."""
        if self.at_end or self.times is not None:
            return None
        return min((each + self.delay_ms + 1 for each in waiting.created.values()), default=None)


@dataclass(frozen=True, slots=True)
class WaitingPartitions:
    """Committables that wait for later checkpoints: hidden files, partitions by their directory with the moment of their first file, and the highest watermark so far.

    Iterating gives the files: that is all a committer without partitions has to know.
    """

    files: tuple[InProgressFile, ...] = ()
    created: Mapping[str, int] = field(default_factory=dict)
    watermark: int = MIN_WATERMARK

    def __iter__(self) -> Iterator[InProgressFile]:
        return iter(self.files)

    @classmethod
    def of(cls, pending: Any) -> WaitingPartitions:
        """Return the state of a committer, with or without partitions."""
        if isinstance(pending, WaitingPartitions):
            return pending
        return cls().with_files(pending or ())

    def with_files(self, files: Any) -> WaitingPartitions:
        """Return the waiting partitions with more files, which may add partitions."""
        created = dict(self.created)
        for file in files:
            created[file.bucket] = min(created.get(file.bucket, file.created_ms), file.created_ms)
        return replace(self, files=(*self.files, *files), created=created)


def plan_partitions(
    request: CommitRequest, policy: CommitPolicy, trigger: CommitTrigger
) -> tuple[list[Publication], list[str], WaitingPartitions | None]:
    """Decide which files are published, which partitions are committed then, and what waits: a pure function of the request.

    A partition is committed with all its files, independent of the policy.
    """
    waiting = WaitingPartitions.of(request.pending).with_files(request.committables)
    watermark = max(waiting.watermark, request.watermark)
    due = {
        directory
        for directory, created_ms in waiting.created.items()
        if request.ended or trigger.is_due(directory, created_ms, request.now_ms, watermark)
    }
    published: list[Publication] = []
    kept: list[InProgressFile] = []
    for of_due in (True, False):
        files = [file for file in waiting.files if (file.bucket in due) == of_due]
        part = replace(request, committables=files, pending=None, final=of_due or request.final)
        now, later = plan_commit(part, policy)
        published += now
        kept += later
    created = {each: at for each, at in waiting.created.items() if each not in due}
    left = WaitingPartitions(tuple(kept), created, watermark)
    # The end of input is the end of time: a job that resumes from here starts a new watermark.
    nothing = request.ended or (not created and watermark == MIN_WATERMARK)
    return published, sorted(due), None if nothing else left


class PartitionCommitter(FileCommitter):
    """Publishes files and commits partitions: an empty file `mark` in its directory says that a partition is complete; None: nothing does."""

    def __init__(
        self,
        base_path: str,
        policy: CommitPolicy,
        trigger: CommitTrigger,
        mark: str | None,
        merge: Merge | None = None,
    ) -> None:
        super().__init__(base_path, policy, merge=merge)
        self._trigger = trigger
        self._mark = mark

    def plan(self, request: CommitRequest) -> tuple[list[Publication], Any]:
        """Publish files that are due by the policy, and those of partitions that are due."""
        published, _, waiting = plan_partitions(request, self._policy, self._trigger)
        return published, waiting

    def commit(self, request: CommitRequest) -> Any:
        """Publish, then mark."""
        waiting = super().commit(request)
        if self._mark is not None:
            _, due, _ = plan_partitions(request, self._policy, self._trigger)
            directories = [self._absolute(each) for each in due]
            for directory in directories:
                self._files.finish(self._files.open_output(posixpath.join(directory, self._mark)))
            self._files.sync_directories(directories)
        return waiting

    def next_wakeup(self, pending: Any) -> int | None:
        """Return when a waiting file is to be published or a partition to be committed, even if no record comes."""
        waiting = WaitingPartitions.of(pending)
        times = [super().next_wakeup(waiting), self._trigger.next_wakeup(waiting)]
        return min((time for time in times if time is not None), default=None)


class ReplacingCommitter(PartitionCommitter):
    """Publishes all files when the job ends, in the place of those that were there.

    `directory`: what is replaced as a whole; None: the partitions that get files. A commit that is repeated deletes nothing of its own: what it publishes is
    known by name.
    """

    def __init__(
        self,
        base_path: str,
        policy: CommitPolicy,
        mark: str | None,
        directory: str | None,
        merge: Merge | None = None,
    ) -> None:
        super().__init__(base_path, policy, CommitTrigger(at_end=True), mark, merge)
        self._directory = directory

    def commit(self, request: CommitRequest) -> Any:
        """Delete the existing files, then publish."""
        if request.final:
            published, _ = self.plan(request)
            own = {publication.path for publication in published}
            buckets = sorted({publication.parts[0].bucket for publication in published})
            files, base = self._files, self._base
            for directory in buckets if self._directory is None else [self._directory]:
                for file in files.walk(posixpath.join(base, directory)):
                    path = posixpath.relpath(file.path, base)
                    if path not in own and not posixpath.basename(path).startswith("."):
                        files.delete(file.path)
        return super().commit(request)
