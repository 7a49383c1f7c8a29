"""Only those files of a directory whose paths look as a table says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from penstock.files.file_info import FileInfo
from penstock.files.file_system import FileSystem
from penstock.formats.base.file_formats import Faults, FileFormat, FilePart


class ChosenFiles(FileFormat):
    """Reads files with an inner format, if the whole path matches a regular expression."""

    def __init__(self, inner: Any, pattern: str) -> None:
        self._inner = inner
        self._pattern = re.compile(pattern)

    def plan(
        self, file: FileInfo, files: FileSystem, part_size: int
    ) -> list[tuple[int, int | None]]:
        """Cut as the inner format does, or leave the file out."""
        if self._pattern.fullmatch(file.path) is None:
            return []
        parts: list[tuple[int, int | None]] = self._inner.plan(file, files, part_size)
        return parts

    def first_position(self, start: int) -> int:
        """Begin where the inner format does."""
        return int(self._inner.first_position(start))

    def use_metrics(self, group: Any) -> None:
        """Let the inner format use them."""
        self._inner.use_metrics(group)

    def read(
        self, part: FilePart, files: FileSystem, position: int, batch_size: int, faults: Faults
    ) -> Iterator[tuple[Any, int]]:
        """Read as the inner format does."""
        yield from self._inner.read(part, files, position, batch_size, faults)
