"""Snapshots of databases: large immutable files that checkpoints share, and a few small ones.

A compaction creates many new files at once, although little state has changed. Uploading such files is *deferred*: it is
spread over several checkpoints. Until all are uploaded, a snapshot consists of the files of the last one that was uploaded
completely, and the changes of every checkpoint since. So the size of a checkpoint follows the amount of state that has
changed.

The values of `SharedFile.local`:

| | |
|---|---|
| `000012.sst` | a file of the database |
| `000012.sst@4194304` | part of a file, from this byte on |
| `changes@0000000042` | the changes of a checkpoint; the database applies them in order when it is opened |
| `later/<lineage>/...` | a file or part that the snapshot does not need yet |
"""

from __future__ import annotations

import mmap
import os
import pickle
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from penstock.checkpoint.handles import (
    DEFAULT_INLINE_THRESHOLD,
    SharedFile,
    StateHandle,
    check_state,
    read_file,
    read_state,
    state_file_name,
    write_state,
)
from penstock.checkpoint.signing import digest
from penstock.checkpoint.storage import CheckpointFileSystem

CHANGES: Final = "CHANGES"  # next to the files of a database: the changes since the last checkpoint
LINEAGE: Final = (
    "LINEAGE"  # files with the same name are equal if their databases have the same lineage
)

_LARGE: Final = ".sst"
_NOT_NEEDED: Final = (".log", ".dbtmp")  # the write-ahead log is not used, nor are temporary files
_NOT_READ: Final = ("OPTIONS", "LOG", "LOCK", "IDENTITY", CHANGES, LINEAGE)
_CHANGES_OF: Final = "changes@"
_LATER: Final = "later/"

# Bytes written at once, or this multiple of the changes. A part is smaller: the changes come on top of it.
_AT_ONCE: Final = 4 << 20
_TIMES_THE_CHANGES: Final = 4
_PART: Final = 3 << 20
# A file with more parts than this is written in larger ones: the manifest names them all.
_MANY_PARTS: Final = 64
# Uploads are no longer deferred when a restore would have to apply this many changes.
_MOST_CHANGES: Final = 256
_MOST_CHANGED_BYTES: Final = 64 << 20
# Bytes of files that may be in memory during the upload: small files are uploaded concurrently.
_MAPPED: Final = 128 << 20


@dataclass(slots=True)
class _Known:
    """What is on storage already, by the name of the database's file."""

    files: dict[str, list[SharedFile]] = field(default_factory=dict)
    changes: list[SharedFile] = field(default_factory=list)
    later: dict[str, list[SharedFile]] = field(default_factory=dict)

    @classmethod
    def of(cls, base: StateHandle | None, lineage: str | None) -> _Known:
        known = cls()
        if base is None or base.is_foreign:
            return known
        for file in base.files:
            local = file.local
            if local.startswith(_CHANGES_OF):
                known.changes.append(file)
            elif not local.startswith(_LATER):
                known.files.setdefault(local.partition("@")[0], []).append(file)
            elif lineage is not None and local.startswith(f"{_LATER}{lineage}/"):
                known.later.setdefault(_file_of(local), []).append(file)
        return known

    def parts_of(self, local: str, size: int) -> list[SharedFile]:
        """Return the parts of a file on storage, contiguous from its beginning."""
        whole = self.files.get(local, [])
        return whole if _size(whole) == size else self.later.get(local, [])

    def can_wait(self, missing: int, changed: int) -> bool:
        """Whether to defer the upload of `missing` bytes, given that `changed` bytes have changed."""
        return (
            bool(self.files)
            and missing > max(_AT_ONCE, _TIMES_THE_CHANGES * changed)
            and len(self.changes) < _MOST_CHANGES
            and _size(self.changes) + changed < _MOST_CHANGED_BYTES
        )


def _file_of(local: str) -> str:
    return local.rpartition("/")[2].partition("@")[0]


def _size(files: Iterable[SharedFile]) -> int:
    return sum(file.size for file in files)


@dataclass(frozen=True, slots=True)
class _Slice:
    """A slice of a file in the directory: all of it or a part."""

    local: str
    start: int
    size: int
    whole: bool

    @property
    def name(self) -> str:
        return self.local if self.whole else f"{self.local}@{self.start}"


def upload(
    storage: CheckpointFileSystem,
    directory: Path,
    name: Any,
    base: StateHandle | None,
    *,
    threads: int = 4,
    inline_threshold: int = DEFAULT_INLINE_THRESHOLD,
    signed: bool = False,
) -> StateHandle:
    """Upload the files of a database, except those that `base` has; return the handle of the snapshot.

    A database never changes a large file or reuses its name: a file with the same name and size in `base` is the same. Files
    that belong to another job are uploaded again, because that job may delete them. If the directory has a file CHANGES, the
    upload of large files may be deferred.
    """
    lineage = _read_text(directory / LINEAGE)
    known = _Known.of(base, lineage)
    small: list[str] = []
    sizes: dict[str, int] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(_LARGE):
                sizes[entry.name] = entry.stat().st_size
            elif not entry.name.endswith(_NOT_NEEDED) and not entry.name.startswith(_NOT_READ):
                small.append(entry.name)
    there = {local: known.parts_of(local, size) for local, size in sizes.items()}
    missing = {local: size - _size(there[local]) for local, size in sizes.items()}
    prefix = state_file_name(name.checkpoint_id, name.operator, name.subtask, name.attempt)
    writer = _Writer(storage, directory, prefix.removesuffix(".state"), threads, signed=signed)
    snapshot = writer.prefix.rpartition("/")[2]
    changed = _size_of(directory / CHANGES)
    if base is not None and changed and known.can_wait(sum(missing.values()), changed):
        changes = f"{_CHANGES_OF}{name.checkpoint_id:010d}"
        written = writer.write([_Slice(CHANGES, 0, changed, True)])
        later = _next_parts(missing, sizes, changed)
        ahead = [
            replace(file, local=f"{_LATER}{lineage}/{file.local}") for file in writer.write(later)
        ]
        kept = [file for local in sizes for file in known.later.get(local, ())]
        needed = [file for files in known.files.values() for file in files]
        return replace(
            base,
            snapshot=snapshot,
            base=base.snapshot,
            files=_sorted(
                [*needed, *known.changes, replace(written[0], local=changes), *kept, *ahead]
            ),
        )
    rest = [
        _Slice(local, sizes[local] - left, left, left == sizes[local])
        for local, left in missing.items()
        if left
    ]
    whole = [
        replace(file, local=file.local.rpartition("/")[2])
        for files in there.values()
        for file in files
    ]
    new = writer.write(rest)
    content = {local: (directory / local).read_bytes() for local in small}
    handle = write_state(
        storage,
        zlib.compress(pickle.dumps(content, 5), 1),
        kind="full",
        key_groups=name.key_groups,
        checkpoint_id=name.checkpoint_id,
        vertex=name.operator,
        subtask=name.subtask,
        attempt=name.attempt,
        inline_threshold=inline_threshold,
        signed=signed,
    )
    return replace(
        handle,
        snapshot=snapshot,
        base=base.snapshot if base is not None else None,
        files=_sorted([*whole, *new]),
    )


def _next_parts(missing: dict[str, int], sizes: dict[str, int], changed: int) -> list[_Slice]:
    """Return the parts to upload ahead: of the largest files, because they are compacted last."""
    left = max(_PART, _TIMES_THE_CHANGES * changed, sum(missing.values()) // _MANY_PARTS)
    found = []
    for local in sorted(missing, key=lambda local: (-sizes[local], local)):
        size = min(missing[local], left)
        if size:
            found.append(_Slice(local, sizes[local] - missing[local], size, size == sizes[local]))
            left -= size
    return found


class _Writer:
    def __init__(
        self,
        storage: CheckpointFileSystem,
        directory: Path,
        prefix: str,
        threads: int,
        *,
        signed: bool,
    ) -> None:
        self.prefix = prefix
        self._storage = storage
        self._directory = directory
        self._threads = threads
        self._signed = signed

    def write(self, slices: list[_Slice]) -> list[SharedFile]:
        """Write slices of files under names that are unique to this attempt."""
        largest = max((piece.size for piece in slices), default=1)
        return _each(self._write, slices, min(self._threads, max(1, _MAPPED // largest)))

    def _write(self, piece: _Slice) -> SharedFile:
        stem = piece.local.removesuffix(_LARGE)
        part = "" if piece.whole else f".{piece.start}"
        target = f"{self.prefix}-{stem}{part}{_LARGE}"
        page = piece.start % mmap.ALLOCATIONGRANULARITY
        with (
            (self._directory / piece.local).open("rb") as file,
            mmap.mmap(  # avoids reading the whole file
                file.fileno(),
                piece.size + page,
                access=mmap.ACCESS_READ,
                offset=piece.start - page,
            ) as mapped,
            memoryview(mapped) as everything,
            everything[page:] as data,
        ):
            self._storage.write_new(target, data)
            sha256 = digest(data, wanted=self._signed)
            return SharedFile(piece.name, target, len(data), zlib.crc32(data), sha256)


def _sorted(files: list[SharedFile]) -> tuple[SharedFile, ...]:
    return tuple(sorted(files, key=lambda file: file.local))


def download(
    storage: CheckpointFileSystem, handle: StateHandle, directory: Path, *, threads: int = 4
) -> None:
    """Download and verify the files of a snapshot."""

    def fetch(file: SharedFile) -> None:
        data = read_file(storage, file.name)
        check_state(storage, file.name, data, file.size, file.crc32, file.sha256)
        local, _, start = file.local.partition("@")
        if start and not file.local.startswith(_CHANGES_OF):
            _write_at(directory / local, int(start), data)
        else:
            (directory / file.local).write_bytes(data)

    _each(fetch, [file for file in handle.files if not file.local.startswith(_LATER)], threads)
    small: dict[str, bytes] = pickle.loads(zlib.decompress(read_state(storage, handle)))
    for local, data in small.items():
        (directory / local).write_bytes(data)


def _write_at(path: Path, start: int, data: bytes) -> None:
    """Write a part of a file while other threads write other parts."""
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.seek(start)
        file.write(data)


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def _each(call: Any, items: Any, threads: int) -> list[Any]:
    if len(items) < 2 or threads < 2:
        return [call(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        return list(pool.map(call, items))
