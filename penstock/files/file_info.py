"""File metadata: path, size and modification time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileInfo:
    """Metadata of a file as listed: its path, length in bytes and modification time."""

    path: str
    size: int
    mtime_ns: int
