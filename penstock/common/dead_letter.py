"""Records that a function raised on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be processed, and why: what `stream.on_error(tag)` sends to the side output.

    `error_type` is the exception's class with its module, `traceback` the text that Python would print, with the user's
    frames only.
    """

    record: Any
    timestamp: int | None
    error_type: str
    message: str
    traceback: str
    operator: str
