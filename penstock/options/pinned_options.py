"""Options that override those of a program, such as the command line's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from penstock.options.configuration import Configuration


class _Pinned:
    """The options of this process that override those of programs; None if there are none."""

    options: Configuration | None = None


def pinned_options() -> Configuration | None:
    """Return a copy of the options that override those of the program, or None."""
    return None if _Pinned.options is None else Configuration(_Pinned.options)


@contextlib.contextmanager
def pin_options(options: Configuration | None) -> Iterator[None]:
    """Let options override those of programs inside a `with` statement."""
    before = _Pinned.options
    _Pinned.options = options
    try:
        yield
    finally:
        _Pinned.options = before
