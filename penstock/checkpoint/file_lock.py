"""A job's lease on a local file system: a kernel lock that is released when the process dies."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import time
from pathlib import Path

from penstock.checkpoint.lease_owner import LeaseOwner, fenced, refused
from penstock.checkpoint.storage import WORDS
from penstock.errors import CheckpointError, FencedError
from penstock.errors.file_errors import directory_failure, failure
from penstock.files.local import LocalFiles

LOCK_FILE = ".lock"

_HELD_BY_OTHER = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES})
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL})
_TRIES = (
    100  # another process has to delete the lock file between two system calls, this often in a row
)
_PAUSE_S = 0.002
_HOUR_NS = 3_600 * 10**9
_RECORD_BYTES = 65_536


class LocksNotSupportedError(OSError):
    """The file system or the operating system does not support locks."""


class FileLock:
    """The lock file of a job's directory, held until `release` or the end of the process.

    The file also has the owner's record. Its inode and modification time show whether another process has deleted it or holds
    it too (on a mounted file system whose locks do not reach other machines): `check` is one `open` and one `stat`.
    """

    def __init__(
        self, path: Path, descriptor: int, owner: LeaseOwner, *, contested: bool = False
    ) -> None:
        self.contested = contested
        self._path = path
        self._descriptor: int | None = descriptor
        self.owner = owner
        self._mark = _mark(os.fstat(descriptor))
        _held.add(self)

    @classmethod
    def acquire(cls, directory: Path, owner: LeaseOwner, *, sync: bool = True) -> FileLock:
        """Lock a job's directory; raises FencedError if it is locked, LocksNotSupportedError if locks are not supported."""
        path = directory / LOCK_FILE
        try:
            descriptor = _lock(path, sync=sync)
        except FencedError:
            raise
        except LocksNotSupportedError:
            raise
        except OSError as error:
            raise directory_failure(error, str(directory), WORDS, "write to") from error
        try:
            before = os.pread(descriptor, _RECORD_BYTES, 0)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, owner.encode(), 0)
            _mark_as_own(descriptor)
            return cls(path, descriptor, owner, contested=_may_live(before))
        except OSError as error:
            os.close(descriptor)
            raise directory_failure(error, str(directory), WORDS, "write to") from error

    def check(self) -> None:
        """Raise FencedError unless this is still the driver of the job."""
        if self._descriptor is None:
            raise fenced(str(self._path.parent), None)
        self._verify()

    def _verify(self) -> None:
        try:
            # On NFS the result of `stat` may be a minute old. Opening a file asks the server.
            os.close(os.open(self._path, os.O_RDONLY))
            mark = _mark(os.stat(self._path))  # noqa: PTH116 - a third of the time of Path.stat
        except FileNotFoundError:
            raise fenced(str(self._path.parent), None) from None
        except OSError as error:
            raise failure(error, "look for", str(self._path), WORDS) from error
        if mark == self._mark:
            return
        found = _read(self._path)
        if mark[:2] != self._mark[:2] or found is None or found.token != self.owner.token:
            raise fenced(str(self._path.parent), found)
        self._mark = mark

    def renew(self) -> None:
        """Do nothing: the kernel tracks whether this process is alive."""

    def release(self, *, forget: bool = False) -> None:
        """Release the lock; also delete the directory if it is otherwise empty."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        _held.discard(self)
        with contextlib.suppress(CheckpointError, OSError):
            self._verify()  # a driver that has written its name into the file keeps it
            # Delete before unlocking: a process that has opened this file in the meantime sees that it is no longer the lock.
            self._path.unlink()
        os.close(descriptor)
        with contextlib.suppress(OSError):
            self._path.parent.rmdir()

    def abandon(self) -> None:
        """Close the file in a child process, which must not keep the lock after the driver has died."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


_held: set[FileLock] = set()  # the locks of this process


def _abandon_all() -> None:
    for lock in list(_held):
        lock.abandon()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)


def read_lock_owner(directory: Path) -> LeaseOwner | None:
    """Return the owner recorded in the lock file of a job's directory."""
    return _read(directory / LOCK_FILE)


def locked_by(directory: Path) -> LeaseOwner | None:
    """Return the current holder of the lock of a job's directory, or None. Raises LocksNotSupportedError without locks."""
    try:
        import fcntl
    except ImportError as error:  # not on Windows
        raise LocksNotSupportedError(errno.ENOSYS, str(error)) from error
    path = directory / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failure(error, "look for", str(path), WORDS) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD_BY_OTHER:
            return _read_holder(path)
        raise LocksNotSupportedError(error.errno, str(error)) from error
    finally:
        os.close(descriptor)
    return None


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
        except (FileNotFoundError, FileExistsError) as error:
            # Another driver may have released the job in the meantime and deleted the directory.
            cause = error
            continue
        except OSError as error:
            raise directory_failure(error, str(path.parent), WORDS) from error
        cause = None
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except (FileNotFoundError, FileExistsError):
            continue
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in _HELD_BY_OTHER:
                    raise refused(str(path.parent), _read_holder(path), str(path)) from None
                if error.errno in _NO_LOCKS:
                    raise LocksNotSupportedError(error.errno, str(error)) from error
                raise
            with contextlib.suppress(FileNotFoundError):
                if _mark(path.stat())[:2] == _mark(os.fstat(descriptor))[:2]:
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # deleted before it was locked
    if cause is not None:
        raise directory_failure(cause, str(path.parent), WORDS) from cause
    raise CheckpointError(
        f"could not lock '{path}'",
        detail="the lock file is deleted as soon as it is created",
        hint="check what else creates or deletes files in the checkpoint directory",
    )


def _may_live(record: bytes) -> bool:
    """Whether the driver that left a record may still be running: on another machine, if locks do not reach that far."""
    if not record:
        return False
    owner = LeaseOwner.decode(record)
    return owner is None or not owner.is_gone


def _mark_as_own(descriptor: int) -> None:
    """Set a modification time that no other driver sets, not even one that writes its name at the same moment."""
    changed = time.time_ns() - secrets.randbelow(_HOUR_NS)
    with contextlib.suppress(OSError):  # not supported by every file system
        os.utime(descriptor, ns=(changed, changed))


def _mark(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _read_holder(path: Path) -> LeaseOwner | None:
    """Read who holds the lock. A driver that has just taken it over from a dead one writes its name a moment later."""
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
