"""Directories for temporary files that name their owner, so that what a killed process left is found and deleted.

A directory is called `penstock-<kind>-<owner>-<random>`. The owner is a process: `<machine>.<pid>.<start>`, where the machine is
a boot of a system and a space of process numbers in it. Only a process on the same machine can see whether the owner has ended,
and directories of unknown owners are not deleted.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import Final

_PREFIX: Final = "penstock-"
_NAME: Final = re.compile(r"penstock-([a-z]+)-(\w+\.\d+\.\d+)-\w+")
_OWNER: Final = re.compile(r"(\w+)\.(\d+)\.(\d+)")
# Children of a killed process run for a moment longer: a JVM that cannot write to its directory any more never ends.
_USED_BY_CHILDREN_S: Final = {"jvm": 300.0, "sockets": 300.0}
_swept: set[str] = set()


def create_directory(kind: str, root: str | None = None) -> str:
    """Create a directory that belongs to this process and return its path; `kind` is a lower-case label of its content.

    It is below `root`, or below the system's directory for temporary files.
    """
    sweep(root)
    return tempfile.mkdtemp(prefix=f"{_PREFIX}{kind}-{this_process()}-", dir=root)


def directory(kind: str) -> tempfile.TemporaryDirectory[str]:
    """Return a directory that belongs to this process, and goes with the `with` statement that it is for."""
    sweep()
    return tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{kind}-{this_process()}-")


def this_process() -> str:
    """Return this process as an owner, for the names of files and directories.

    >>> is_gone(this_process())
    False
    """
    return f"{_machine()}.{os.getpid()}.{_start(os.getpid()) or 0}"


def is_gone(owner: str) -> bool:
    """Whether a process is known to have ended. False if it runs, or if that is unknown."""
    found = _OWNER.fullmatch(owner)
    if found is None or found[1] != _machine():
        return False
    start = _start(int(found[2]))
    if start is not None:
        return start != int(found[3])  # else another process has got its number
    try:
        os.kill(int(found[2]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return False


def sweep(root: str | None = None) -> None:
    """Delete what processes of this user left below a directory that are gone; once in a process."""
    root = root or tempfile.gettempdir()
    if root in _swept:
        return
    _swept.add(root)
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            found = _NAME.fullmatch(entry.name)
            if found is not None and is_gone(found[2]) and _is_mine(entry, found[1]):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_mine(entry: os.DirEntry[str], kind: str) -> bool:
    """Whether a directory belongs to this user, and nothing that its owner had started needs it any more."""
    try:
        status = entry.stat(follow_symlinks=False)
        return (
            entry.is_dir(follow_symlinks=False)
            and status.st_uid == os.geteuid()
            and time.time() - status.st_mtime >= _USED_BY_CHILDREN_S.get(kind, 0.0)
        )
    except OSError:  # gone meanwhile
        return False


@functools.cache
def _machine() -> str:
    """Return what is different wherever process numbers may mean other processes."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))  # containers have their own pids
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:12]


def _start(pid: int) -> int | None:
    """Return the start time of a process in ticks since boot; None if it has ended or that is unknown."""
    try:
        # After the name, which may contain anything: state, ..., start.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[19])
