"""A job's lease on a local file system: a lock that the kernel keeps and releases when the process dies."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path

from penstock.checkpoint.lease_owner import LeaseOwner, fenced, refused
from penstock.checkpoint.local_files import LocalFiles
from penstock.checkpoint.storage import as_checkpoint_error
from penstock.errors import CheckpointError, FencedError

LOCK_FILE = ".lock"

_HELD_BY_OTHER = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES})
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL})
_TRIES = 100  # somebody has to delete the lock file between two system calls, this often
_PAUSE_S = 0.002


class LocksNotSupportedError(OSError):
    """The file system, or the operating system, has no locks."""


class FileLock:
    """The lock file of a job's directory, held until `release` or the end of the process.

    The file also has the owner's record. Looking at the file's number and time of change tells if somebody has deleted it or
    holds it too (on a mounted file system whose locks do not reach other machines): `check` is one `stat`.
    """

    def __init__(self, path: Path, descriptor: int, owner: LeaseOwner) -> None:
        self._path = path
        self._descriptor: int | None = descriptor
        self.owner = owner
        self._mark = _mark(os.fstat(descriptor))
        _held.add(self)

    @classmethod
    def acquire(cls, directory: Path, owner: LeaseOwner, *, sync: bool = True) -> FileLock:
        """Lock a job's directory; raises FencedError if it is locked, LocksNotSupportedError if it cannot be."""
        path = directory / LOCK_FILE
        try:
            descriptor = _lock(path, sync=sync)
        except FencedError:
            raise
        except LocksNotSupportedError:
            raise
        except OSError as error:
            raise as_checkpoint_error(error, "lock", str(path)) from error
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, owner.encode(), 0)
            return cls(path, descriptor, owner)
        except OSError as error:
            os.close(descriptor)
            raise as_checkpoint_error(error, "write", str(path)) from error

    def check(self) -> None:
        """Raise FencedError unless this is still the driver of the job."""
        if self._descriptor is None:
            raise fenced(str(self._path.parent), None)
        try:
            mark = _mark(os.stat(self._path))  # noqa: PTH116 - a third of the time of Path.stat
        except FileNotFoundError:
            raise fenced(str(self._path.parent), None) from None
        except OSError as error:
            raise as_checkpoint_error(error, "look for", str(self._path)) from error
        if mark == self._mark:
            return
        found = _read(self._path)
        if mark[:2] != self._mark[:2] or found is None or found.token != self.owner.token:
            raise fenced(str(self._path.parent), found)
        self._mark = mark

    def renew(self) -> None:
        """Do nothing: the kernel knows that this process lives."""

    def release(self, *, forget: bool = False) -> None:
        """Give the lock up; also deletes the directory if nothing else is in it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        _held.discard(self)
        with contextlib.suppress(OSError):
            # Deleting before unlocking: whoever has opened this file meanwhile sees that it is no longer the lock.
            if _mark(self._path.stat())[:2] == self._mark[:2]:
                self._path.unlink()
        os.close(descriptor)
        with contextlib.suppress(OSError):
            self._path.parent.rmdir()

    def abandon(self) -> None:
        """Let go in a child process, which must not keep the lock when the driver has died."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


_held: set[FileLock] = set()  # of this process


def _abandon_all() -> None:
    for lock in list(_held):
        lock.abandon()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)


def _lock(path: Path, *, sync: bool) -> int:
    """Open and lock a file; return its descriptor."""
    try:
        import fcntl
    except ImportError as error:  # not on Windows
        raise LocksNotSupportedError(errno.ENOSYS, str(error)) from error
    files = LocalFiles(sync=sync)
    cause: OSError | None = None
    for _ in range(_TRIES):
        try:
            files.make_directory(path.parent)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except (FileNotFoundError, FileExistsError) as error:
            cause = error  # somebody released the job meanwhile, and the directory went with it
            continue
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in _HELD_BY_OTHER:
                    raise refused(str(path.parent), _read_holder(path)) from None
                if error.errno in _NO_LOCKS:
                    raise LocksNotSupportedError(error.errno, str(error)) from error
                raise
            with contextlib.suppress(FileNotFoundError):
                if _mark(path.stat())[:2] == _mark(os.fstat(descriptor))[:2]:
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was deleted before it was locked
    raise CheckpointError(
        f"could not lock '{path}'",
        detail=str(cause or "the lock file disappears as soon as it is made"),
        hint="look for what else makes or deletes files in the checkpoint directory",
    )


def _mark(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _read_holder(path: Path) -> LeaseOwner | None:
    """Read who holds the lock. Whoever has just got it, from a driver that died, writes its name in a moment."""
    for _ in range(_TRIES):
        found = _read(path)
        if found is not None and (found.pid == os.getpid() or not found.is_gone):
            return found
        time.sleep(_PAUSE_S)
    return None


def _read(path: Path) -> LeaseOwner | None:
    try:
        return LeaseOwner.decode(path.read_bytes())
    except OSError:
        return None
