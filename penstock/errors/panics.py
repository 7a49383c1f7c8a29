"""Panics of libraries written in Rust, such as Polars: what they raise is not an Exception, and would end the process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from penstock.errors import PenstockError


class PanicError(PenstockError, RuntimeError):
    """A library written in Rust panicked."""


def is_panic(error: BaseException) -> bool:
    """Whether an error is a panic. Each library has a class of its own for them."""
    return type(error).__name__ == "PanicException"


def error_of_panic(panic: BaseException) -> PanicError:
    """Return a panic as an error."""
    error = PanicError(
        f"a library failed unexpectedly: {panic}",
        detail="the task's log has details above this message, in lines that begin with 'thread'",
    )
    error.__cause__ = panic
    return error.with_traceback(panic.__traceback__)


@contextlib.contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise a PanicError in the place of a panic."""
    try:
        yield
    except BaseException as error:
        if not is_panic(error):
            raise
        raise error_of_panic(error) from error
