"""The wall clock. What reads it here can be shown a wrong time in tests.

It may jump: back when it is corrected, forward after the machine slept. Use it for moments that people or other machines know
(processing time, times of change of files), and `time.monotonic` for how long something takes.

`PENSTOCK_CLOCK_SHIFT=-3600` puts it back by an hour in every process that inherits the variable, and
`PENSTOCK_CLOCK_SHIFT=-3600@/tmp/jump` does so while the file `/tmp/jump` exists.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from penstock.errors import ConfigurationError

SHIFT_VARIABLE = "PENSTOCK_CLOCK_SHIFT"

Reader = Callable[[], float]


def now() -> float:
    """Return the seconds since 1970."""
    return _reader()


def now_ms() -> int:
    """Return the milliseconds since 1970."""
    return int(_reader() * 1000)


def set_reader(reader: Reader | None) -> Reader:
    """Read the clock with `reader`, or again with `time.time` if it is None; return the reader before. For tests."""
    global _reader
    before, _reader = _reader, reader or time.time
    return before


def shifted_reader(shift: str) -> Reader:
    """Return a clock shifted by `shift`: seconds, or seconds@path while the path exists.

    >>> round(shifted_reader("-3600")() - time.time())
    -3600
    """
    amount, _, path = shift.partition("@")
    try:
        seconds = float(amount)
    except ValueError:
        raise ConfigurationError(
            f"{SHIFT_VARIABLE}={shift!r} is not a valid clock shift",
            hint="use seconds, such as -3600, or seconds and a file that enables the shift, such as -3600@/tmp/jump",
        ) from None
    if not path:
        return lambda: time.time() + seconds
    switch = Path(path)
    return lambda: time.time() + seconds if switch.exists() else time.time()


_reader: Reader = (
    shifted_reader(os.environ[SHIFT_VARIABLE]) if os.environ.get(SHIFT_VARIABLE) else time.time
)
