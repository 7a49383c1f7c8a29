"""Databases on the local disk of a subtask's machine. Only a cache: checkpoint storage has everything.

```
<local directory>/penstock-rocksdb-<user>/<job id>/<operator>-<subtask>/
  snap-<snapshot>/       a checkpoint's files; read-only
  work-<process>-<n>/    a database in use, or a checkpoint in progress
```

Files are shared between these directories as hard links. They contain pickles, so write access to them allows running
code in tasks:
the directory belongs to the user, and one that others can write to is rejected.
"""

from __future__ import annotations

import itertools
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.errors import ConfigurationError
from penstock.errors.file_errors import FILES, directory_failure, is_lasting
from penstock.processes import temporary

_ROOT: Final = "penstock-rocksdb"
_WORDS: Final = replace(
    FILES,
    directory="the directory for state databases",
    elsewhere="set another state.backend.rocksdb.localdir",
)
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_FORGOTTEN_S: Final = 24 * 3600.0

_numbers = itertools.count()
_swept: set[Path] = set()


class LocalDirectory:
    """The directory of one operator in one subtask."""

    def __init__(self, roots: Collection[str], job_id: str, operator: str, subtask: int) -> None:
        chosen = list(roots) or _default_roots()
        self._root = _own_directory(chosen[subtask % len(chosen)])
        self.job = self._root / job_id
        self.path = self.job / f"{operator}-{subtask}"

    def new(self) -> Path:
        """Return the path of a directory that does not exist yet, but whose parent does."""
        _claim(self._root)
        self.path.mkdir(parents=True, exist_ok=True)
        _remove_forgotten(self._root, self.job)
        return self.path / f"work-{temporary.this_process()}-{next(_numbers)}"

    def find(self, snapshot: str) -> Path | None:
        """Return the local copy of a snapshot, if it exists."""
        _claim(self._root)
        path = self.path / f"snap-{snapshot}"
        return path if path.is_dir() else None

    def clone(self, source: Path) -> Path:
        """Return a directory with the same files: tables are linked, small mutable files are copied."""
        target = self.new()
        target.mkdir()
        for file in source.iterdir():
            if file.suffix == ".sst":
                try:
                    os.link(file, target / file.name)
                except OSError:  # another file system, or one without hard links
                    shutil.copyfile(file, target / file.name)
            else:
                shutil.copyfile(file, target / file.name)
        return target

    def publish(self, directory: Path, snapshot: str) -> Path:
        """Publish a complete directory as the local copy of a snapshot."""
        target = self.path / f"snap-{snapshot}"
        try:
            directory.rename(target)
        except OSError:  # another process was first
            remove(directory)
        return target

    def prune(self, keep: Collection[str]) -> None:
        """Delete all snapshots except these, and the files of dead processes."""
        kept = {f"snap-{snapshot}" for snapshot in keep}
        for entry in list(self.path.iterdir()):
            kind, _, rest = entry.name.partition("-")
            stale = kind == "snap" and entry.name not in kept
            if stale or (kind == "work" and temporary.is_gone(rest.partition("-")[0])):
                remove(entry)


def remove(directory: Path) -> None:
    """Delete a directory; missing files are not an error."""
    shutil.rmtree(directory, ignore_errors=True)


def remove_job(roots: Collection[str], job_id: str) -> None:
    """Delete all files of a job on this machine, in the known directories."""
    for root in list(roots) or _default_roots():
        remove(_own_directory(root) / job_id)


def _default_roots() -> list[str]:
    # Spark sets the local directories of its Python workers, and deletes them with the application.
    configured = [path for path in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if path]
    return configured or [tempfile.gettempdir()]


def _own_directory(root: str) -> Path:
    """Return this user's directory in one that may be shared."""
    return Path(root) / f"{_ROOT}-{os.geteuid()}"


def _claim(directory: Path) -> None:
    """Create a directory for this user only; reject one that other users could have written to."""
    try:
        _make(directory)
    except OSError as error:
        # Parents are created, too.
        if is_lasting(error) or isinstance(error, FileNotFoundError):
            raise directory_failure(error, str(directory.parent), _WORDS) from error
        raise  # may succeed on another machine, or later


def _make(directory: Path) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode):
            reason = "it is not a directory of its own"
        elif found.st_uid != os.geteuid():
            reason = f"it belongs to user {found.st_uid}, this process to user {os.geteuid()}"
        elif found.st_mode & _OTHERS_MAY_WRITE:
            reason = f"other users may write to it (mode {stat.S_IMODE(found.st_mode):o})"
        else:
            return
        raise ConfigurationError(
            f"the directory '{directory}' for state databases is not safe to use",
            detail=f"{reason}; its files are unpickled, so write access to it allows running code in this job",
            hint="delete it, or set state.backend.rocksdb.localdir to a private directory",
        ) from None


def _remove_forgotten(root: Path, job: Path) -> None:
    """Delete the files of jobs that have not been active for a day; once per process."""
    if root in _swept:
        return
    _swept.add(root)
    for other in root.iterdir():
        try:
            newest = max([other.stat().st_mtime, *(e.stat().st_mtime for e in other.iterdir())])
            forgotten = time.time() - newest > _FORGOTTEN_S and not _is_in_use(other)
        except OSError:
            continue
        if other != job and forgotten:
            remove(other)


def _is_in_use(job: Path) -> bool:
    """Whether a live process may have a database in a job's directory: one without changes leaves no other trace."""
    return any(not temporary.is_gone(work.name.split("-")[1]) for work in job.glob("*/work-*-*"))
