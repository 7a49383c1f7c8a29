"""Records that a function raised on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.common.user_types import Record


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be processed, and why: what `stream.on_error(tag)` sends to the side output.

    `error_type` is the exception's class with its module, `traceback` the text that Python would print, with the user's
    frames only. Of what a source could not make a record of, `record` is what it found (bytes, a line), and `origin` tells where: topic,
    partition and offset, or what else its kind of source has.
    """

    record: Record
    timestamp: int | None
    error_type: str
    message: str
    traceback: str
    operator: str
    origin: dict[str, Any] | None = None
