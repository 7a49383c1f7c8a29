"""Files of change events: a line is a change of a row."""

from __future__ import annotations

from penstock.files.file_info import FileInfo
from penstock.files.file_system import FileSystem
from penstock.formats.base.file_formats import DeserializedLinesFormat


class ChangeLines(DeserializedLinesFormat):
    """Lines that are read as rows with kinds, file by file in their order: a row is retracted after it was added."""

    def plan(
        self, file: FileInfo, files: FileSystem, part_size: int
    ) -> list[tuple[int, int | None]]:
        """Give each file as one part, since parts would be read side by side."""
        return [(0, None)] if file.size else []
