"""Classification of transient file system failures, and the retries for them."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable
from typing import TypeVar

from penstock.errors import FileError

# There is one more attempt than there are pauses.
PAUSES_S: tuple[float, ...] = (0.05, 0.2)

_PERMANENT_KINDS = (
    FileError,  # was retried already
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
_PERMANENT_CODES = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EEXIST,
        errno.EFBIG,
        errno.EINVAL,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOSPC,
        errno.ENOSYS,
        errno.ENOTDIR,
        errno.ENOTEMPTY,
        errno.ENOTSUP,
        errno.EPERM,
        errno.EROFS,
        errno.EXDEV,
    }
)

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def is_transient(error: OSError) -> bool:
    """Whether the same call may succeed a moment later.

    >>> is_transient(OSError(errno.EIO, "i/o error")), is_transient(OSError(errno.ENOSPC, "disk full"))
    (True, False)
    """
    return not isinstance(error, _PERMANENT_KINDS) and error.errno not in _PERMANENT_CODES


def retried(
    call: Callable[[], _T], what: str, *, sleep: Callable[[float], None] | None = None
) -> _T:
    """Return the result of `call`, retrying after transient failures; `what` is used in the warning."""
    for pause in PAUSES_S:
        try:
            return call()
        except OSError as error:
            if not is_transient(error):
                raise
            _log.warning("could not %s: %s; retrying", what, error)
        (sleep or time.sleep)(pause)
    return call()
