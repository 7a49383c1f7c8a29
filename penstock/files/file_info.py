"""What is known of a file without reading it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file as it was seen: its path, its length in bytes, when it was last changed."""

    path: str
    size: int
    mtime_ns: int
