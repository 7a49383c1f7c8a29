"""Publishing part files, on the driver.

Writers leave hidden files (their names begin with a dot) in the directories of their buckets. A commit renames them, or
concatenates several small ones of a bucket and subtask (with compaction: of all subtasks): copied to a hidden file first,
synced, renamed, and only then are the small ones deleted. So a reader never sees a partial file, and a commit can be repeated
from any point:

- the final file exists: it is complete; remaining parts are deleted;
- it does not exist, its parts do: it is created (again);
- neither exists: it was published before, and a reader has removed it since.

The final name contains a hash of the names of the parts, which contain a hash of the job, the operator and the task attempt.
So no two publications share a name, and no file of another run is ever overwritten.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Any

from penstock.connectors.base.sink import CommitRequest, Committer
from penstock.errors import CheckpointError
from penstock.files.file_system import FileSystem, resolve

logger = logging.getLogger("penstock.connectors.files")

_HIDDEN = re.compile(
    r"^\..*\.(?:inprogress\.(?P<checkpoint_id>\d+)\.[0-9a-f]+|concat)\.(?P<job>[^.]+)$"
)


@dataclass(frozen=True, slots=True)
class InProgressFile:
    """A hidden file that a writer closed at a barrier. Paths are relative to the sink's base path."""

    bucket: str
    name: str  # of the hidden file
    stem: str  # of the final file: prefix, subtask, checkpoint id, number
    subtask: int
    checkpoint_id: int
    size: int
    records: int
    created_ms: int
    written_ms: int

    @property
    def path(self) -> str:
        """Path of the hidden file."""
        return posixpath.join(self.bucket, self.name)


@dataclass(frozen=True, slots=True)
class Publication:
    """Hidden files that become one final file."""

    parts: tuple[InProgressFile, ...]
    path: str

    @property
    def temporary(self) -> str:
        """The hidden file that the parts are copied to."""
        folder, name = posixpath.split(self.path)
        job = self.parts[0].name.rsplit(".", 1)[1]
        return posixpath.join(folder, f".{name}.concat.{job}")


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """When hidden files are published: at once, or when there are enough of a bucket and subtask.

    With `compact_size`, files of a bucket that are published together are compacted to files of up to that size.
    """

    at_once: bool = True
    part_size: int | None = None
    rollover_interval: int | None = None
    inactivity_interval: int | None = None
    checkpoints: int | None = None
    concatenates: bool = True
    delimiter: bytes = b""
    suffix: str = ""
    compact_size: int | None = None


Merge = Callable[[Sequence[IO[bytes]], IO[bytes]], None]  # source files, target file


def plan_commit(
    request: CommitRequest, policy: CommitPolicy
) -> tuple[list[Publication], list[InProgressFile]]:
    """Decide what is published and what stays pending: a pure function of the request."""
    waiting: list[InProgressFile] = [*(request.pending or []), *request.committables]
    if policy.compact_size is not None and (policy.at_once or request.final):
        return [_publication(group, policy) for group in _packed(waiting, policy.compact_size)], []
    if policy.at_once:
        return [_publication([file], policy) for file in waiting], []
    groups: dict[tuple[str, int], list[InProgressFile]] = {}
    published: list[Publication] = []
    for file in waiting:
        if policy.part_size is not None and file.size >= policy.part_size:
            published.append(_publication([file], policy))  # a rename avoids the copy
        else:
            groups.setdefault((file.bucket, file.subtask), []).append(file)
    pending: list[InProgressFile] = []
    for group in groups.values():
        if not (request.final or _is_due(group, request, policy)):
            pending += group
        elif policy.concatenates:
            published.append(_publication(group, policy))
        else:
            published += [_publication([file], policy) for file in group]
    return published, pending


def _packed(files: list[InProgressFile], size: int) -> list[list[InProgressFile]]:
    """Group the files of each bucket so that no group exceeds a size, unless one file alone does."""
    packed: list[list[InProgressFile]] = []
    last: dict[str, list[InProgressFile]] = {}
    for file in files:
        group = last.get(file.bucket)
        if group is None or sum(each.size for each in group) + file.size > size:
            group = last[file.bucket] = []
            packed.append(group)
        group.append(file)
    return packed


def _is_due(group: list[InProgressFile], request: CommitRequest, policy: CommitPolicy) -> bool:
    if policy.part_size is not None and sum(file.size for file in group) >= policy.part_size:
        return True
    if policy.checkpoints is not None:
        return (
            request.checkpoint_id - min(file.checkpoint_id for file in group) + 1
            >= policy.checkpoints
        )
    due = _due_time(group, policy)
    return due is not None and request.now_ms >= due


def _due_time(group: list[InProgressFile], policy: CommitPolicy) -> int | None:
    times = []
    if policy.rollover_interval is not None:
        times.append(min(file.created_ms for file in group) + policy.rollover_interval)
    if policy.inactivity_interval is not None:
        times.append(max(file.written_ms for file in group) + policy.inactivity_interval)
    return min(times, default=None)


def _publication(files: list[InProgressFile], policy: CommitPolicy) -> Publication:
    tag = short_hash(*(file.path for file in files))
    name = f"{files[0].stem}-{tag}{policy.suffix}"
    return Publication(tuple(files), posixpath.join(files[0].bucket, name))


class FileCommitter(Committer):
    """Publishes the files of one FileSink. `merge` merges several files; None: concatenates them."""

    def __init__(
        self,
        base_path: str,
        policy: CommitPolicy,
        files: FileSystem | None = None,
        merge: Merge | None = None,
    ) -> None:
        resolved, self._base = resolve(base_path)
        self._files = files or resolved
        self._policy = policy
        self._merge = merge

    def plan(self, request: CommitRequest) -> tuple[list[Publication], Any]:
        """Decide what is published and what stays pending: None if nothing does."""
        published, pending = plan_commit(request, self._policy)
        return published, pending or None

    def commit(self, request: CommitRequest) -> Any:
        """Publish what is due; return what stays pending."""
        published, pending = self.plan(request)
        leftovers = [path for paths in self._files.each(self._publish, published) for path in paths]
        # Names must be durable before the parts are deleted: else a power failure could lose both.
        self._files.sync_directories(
            sorted({self._absolute(publication.parts[0].bucket) for publication in published})
        )
        self._files.each(self._files.delete, leftovers)
        return pending

    def next_wakeup(self, pending: Any) -> int | None:
        """Return when (epoch milliseconds) a pending file must be published even if no record arrives."""
        groups: dict[tuple[str, int], list[InProgressFile]] = {}
        for file in pending or []:
            groups.setdefault((file.bucket, file.subtask), []).append(file)
        times = [_due_time(group, self._policy) for group in groups.values()]
        return min((time for time in times if time is not None), default=None)

    @staticmethod
    def referenced(committables: Iterable[InProgressFile]) -> set[str]:
        """Return the hidden files (relative to the base path) that committables or pending files name."""
        return {file.path for file in committables}

    def sweep(
        self, keep: set[str], job_id: str, up_to_checkpoint_id: int | None = None
    ) -> list[str]:
        """Delete hidden files of a job that no checkpoint names; return their paths.

        `keep` are paths as `referenced` returns them, of all checkpoints that may be restored. Writers must be idle, or
        `up_to_checkpoint_id` must be older than the checkpoint that is being written.
        """
        return sweep_files(
            self._files, self._base, lambda path: path in keep, job_id, up_to_checkpoint_id
        )

    def clean_up(self, requests: Sequence[CommitRequest], job_id: str) -> None:
        """Delete hidden files that no checkpoint names."""
        keep: set[str] = set()
        for request in requests:
            keep |= self.referenced([*request.committables, *(request.pending or [])])
        self.sweep(keep, job_id)

    def _publish(self, publication: Publication) -> list[str]:
        """Create the final file; return what may be deleted then."""
        files = self._files
        target = self._absolute(publication.path)
        sources = [self._absolute(part.path) for part in publication.parts]
        if files.has_file(target):
            if len(sources) > 1:
                sources.append(self._absolute(publication.temporary))
            return sources
        there = [files.has_file(source) for source in sources]
        if not all(there):
            # Parts are deleted in order and only after the final file has its name (object stores: in any order).
            if not files.remote and there != sorted(there):
                missing = there.index(False, there.index(True))
                raise CheckpointError(
                    "a file that the checkpoint refers to no longer exists",
                    detail=f"file: {sources[missing]}",
                    hint="only the job may delete hidden files below the sink's path",
                )
            logger.warning("%s was published before and no longer exists", target)
            return [source for source, found in zip(sources, there, strict=True) if found]
        if len(sources) == 1:
            files.rename(sources[0], target)
            return []
        temporary = self._absolute(publication.temporary)
        out = files.open_output(temporary)
        try:
            self._put_together(sources, out)
        except BaseException:
            out.close()
            raise
        files.finish(out)
        files.rename(temporary, target)
        return sources

    def _put_together(self, sources: list[str], out: IO[bytes]) -> None:
        files = self._files
        if self._merge is not None:
            with contextlib.ExitStack() as stack:
                self._merge([stack.enter_context(files.open_input(each)) for each in sources], out)
            return
        for index, source in enumerate(sources):
            if index and self._policy.delimiter:
                out.write(self._policy.delimiter)
            files.copy_into(source, out)

    def _absolute(self, path: str) -> str:
        return posixpath.join(self._base, path) if path else self._base


def sweep_files(
    files: FileSystem,
    base: str,
    is_referenced: Callable[[str], bool],
    job_id: str | None,
    up_to_checkpoint_id: int | None = None,
) -> list[str]:
    """Delete hidden files below a path that nothing refers to; `is_referenced` gets relative paths."""
    deleted = []
    for file in files.walk(base):
        relative = posixpath.relpath(file.path, base)
        match = _HIDDEN.match(posixpath.basename(relative))
        if match is None or (job_id is not None and match["job"] != job_id):
            continue
        checkpoint_id = match["checkpoint_id"]
        if (
            up_to_checkpoint_id is not None
            and checkpoint_id is not None
            and int(checkpoint_id) > up_to_checkpoint_id
        ):
            continue
        if not is_referenced(relative):
            files.delete(file.path)
            deleted.append(relative)
    return sorted(deleted)


def hidden_name(stem: str, checkpoint_id: int, attempt_tag: str, job_id: str) -> str:
    """Return the name of an in-progress file: its suffix is the job that owns it and may sweep it."""
    return f".{stem}.inprogress.{checkpoint_id}.{attempt_tag}.{job_id}"


def short_hash(*parts: str) -> str:
    """Return a hash of these texts, 10 hexadecimal digits."""
    digest = hashlib.blake2s(digest_size=5)
    for part in parts:
        encoded = part.encode("utf-8", "surrogateescape")
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
    return digest.hexdigest()
