"""Snapshots of databases: large files that never change, shared between checkpoints, and a few small ones."""

from __future__ import annotations

import mmap
import os
import pickle
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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
from penstock.checkpoint.storage import CheckpointStorage

_LARGE = ".sst"
_NOT_NEEDED = (".log", ".dbtmp")  # the log is not used, nor what was to replace another file
_NOT_READ = ("OPTIONS", "LOG", "LOCK", "IDENTITY")


def upload(
    storage: CheckpointStorage,
    directory: Path,
    name: Any,
    base: StateHandle | None,
    *,
    threads: int = 4,
    inline_threshold: int = DEFAULT_INLINE_THRESHOLD,
) -> StateHandle:
    """Make the files of a database durable, except those that `base` has; return the handle of the snapshot.

    A database never changes a large file, nor does it use a name again: a file that has its name and its size in `base` is
    the same. Files that belong to another job are written anew, because that job may delete them.
    """
    known: dict[str, SharedFile] = {}
    if base is not None and not base.is_foreign:
        known = {file.local: file for file in base.files}
    small: dict[str, bytes] = {}
    files: dict[str, SharedFile] = {}
    new: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            local = entry.name
            if local.endswith(_LARGE):
                before = known.get(local)
                if before is not None and before.size == entry.stat().st_size:
                    files[local] = before
                else:
                    new.append(local)
            elif not local.endswith(_NOT_NEEDED) and not local.startswith(_NOT_READ):
                small[local] = (directory / local).read_bytes()
    prefix = state_file_name(name.epoch, name.operator, name.subtask, name.attempt)
    prefix = prefix.removesuffix(".state")

    def share(local: str) -> SharedFile:
        target = f"{prefix}-{local}"
        with (
            (directory / local).open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,  # not in memory at once
        ):
            storage.write_new(target, data)
            return SharedFile(local, target, len(data), zlib.crc32(data))

    files |= {file.local: file for file in _each(share, new, threads)}
    handle = write_state(
        storage,
        zlib.compress(pickle.dumps(small, 5), 1),
        kind="full",
        key_groups=name.key_groups,
        epoch=name.epoch,
        vertex=name.operator,
        subtask=name.subtask,
        attempt=name.attempt,
        inline_threshold=inline_threshold,
    )
    return StateHandle(
        handle.kind,
        handle.size,
        handle.crc32,
        handle.key_groups,
        data=handle.data,
        name=handle.name,
        snapshot=prefix.rpartition("/")[2],
        base=base.snapshot if base is not None else None,
        files=tuple(files[local] for local in sorted(files)),
    )


def download(
    storage: CheckpointStorage, handle: StateHandle, directory: Path, *, threads: int = 4
) -> None:
    """Read the files of a snapshot into a directory, after checking them."""

    def fetch(file: SharedFile) -> None:
        data = read_file(storage, file.name)
        check_state(storage, file.name, data, file.size, file.crc32)
        (directory / file.local).write_bytes(data)

    _each(fetch, handle.files, threads)
    small: dict[str, bytes] = pickle.loads(zlib.decompress(read_state(storage, handle)))
    for local, data in small.items():
        (directory / local).write_bytes(data)


def _each(call: Any, items: Any, threads: int) -> list[Any]:
    if len(items) < 2 or threads < 2:
        return [call(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        return list(pool.map(call, items))
