"""Writing to the standard output of a process in which several jobs do."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Protocol

_writing = threading.Lock()


class TextOutput(Protocol):
    """What texts are written to."""

    def write(self, text: str, /) -> object:
        """Write a text."""

    def flush(self) -> None:
        """Let all of it be seen."""


def write_out(output: TextOutput, texts: Iterable[str]) -> None:
    """Write texts, one after the other, and let them be seen: one thread at a time.

    A stream of Python's loses what one thread writes while another flushes it (python/cpython#119506).
    """
    with _writing:
        for text in texts:
            output.write(text)
        output.flush()
