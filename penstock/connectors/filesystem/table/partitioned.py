"""Files in partition directories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import polars as pl

from penstock.errors import RecordError
from penstock.files.file_info import FileInfo
from penstock.files.file_system import FileSystem
from penstock.formats.base.file_formats import Faults, FileFormat, FilePart
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.sql.types import DataType


class PartitionedFrames(FileFormat):
    """Files below directories `column=value`: columns of files by an inner format, the others from the names of the directories."""

    def __init__(
        self, inner: Any, names: Sequence[str], types: Sequence[DataType], default: str
    ) -> None:
        self._inner = inner
        self._kinds = {name: dtype_of(kind) for name, kind in zip(names, types, strict=True)}
        self._default = default
        self.columns: list[str] = [*inner.columns, *names]

    def project(self, columns: Sequence[str]) -> None:
        """Read these columns only."""
        self.columns = list(columns)
        inner = [name for name in columns if name not in self._kinds]
        # Something must be read to know how many rows there are.
        self._inner.project(inner or self._inner.columns[:1])

    def plan(
        self, file: FileInfo, files: FileSystem, part_size: int
    ) -> list[tuple[int, int | None]]:
        """Cut as the inner format does."""
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
        """Add the columns of the directories."""
        values = self._values(part.path)
        for frame, following in self._inner.read(part, files, position, batch_size, faults):
            yield frame.with_columns(values).select(self.columns), following

    def _values(self, path: str) -> list[pl.Expr]:
        found = dict(each.split("=", 1) for each in path.split("/") if "=" in each)
        missing = [name for name in self._kinds if name not in found]
        if missing:
            raise RecordError(
                "file of a partitioned table is not in a partition directory",
                detail=f"{path}: no directory '{missing[0]}=...' in its path",
            )
        return [
            pl.lit(self._value(found[name])).cast(pl.String).cast(kind).alias(name)
            for name, kind in self._kinds.items()
        ]

    def _value(self, written: str) -> str | None:
        return None if written == self._default else unquote(written)
