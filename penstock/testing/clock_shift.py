"""A wall clock that is wrong: for tests of what a job does when it jumps.

In this process:

    with clock_shift(-3600):
        ...

In all processes of a job, from the moment when a file appears:

    environment = clock_shift_environment(-3600, while_exists="/tmp/jump") subprocess.Popen([...], env={**os.environ,
    **environment})
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.time.clock import SHIFT_VARIABLE, set_reader


@contextmanager
def clock_shift(seconds: float) -> Iterator[None]:
    """Put the wall clock of this process on (or back, if negative) meanwhile."""
    before = set_reader(None)
    set_reader(lambda: before() + seconds)
    try:
        yield
    finally:
        set_reader(before)


def clock_shift_environment(seconds: float, while_exists: str | None = None) -> dict[str, str]:
    """Return the environment variable that shifts the clock of a process and all that it starts."""
    return {SHIFT_VARIABLE: f"{seconds:g}" + (f"@{while_exists}" if while_exists else "")}
