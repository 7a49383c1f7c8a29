"""Metadata columns: the file that a row was read from."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from penstock.files.file_info import FileInfo
from penstock.files.file_system import FileSystem
from penstock.formats.base.file_formats import Faults, FileFormat, FilePart
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.sql import types as t
from penstock.sql.types import DataType

# name -> type, and how it is taken
METADATA: Final[dict[str, tuple[DataType, Callable[[FileInfo], Any]]]] = {
    "file.path": (t.VarCharType(2**31 - 1, nullable=False), lambda info: info.path),
    "file.name": (
        t.VarCharType(2**31 - 1, nullable=False),
        lambda info: posixpath.basename(info.path),
    ),
    "file.size": (t.BigIntType(nullable=False), lambda info: info.size),
    "file.modification-time": (
        t.LocalZonedTimestampType(3, nullable=False),
        lambda info: info.mtime_ns // 1_000_000,
    ),
}


class MetadataFrames(FileFormat):
    """Columns of an inner format plus metadata of the file: `keys` are names of columns -> names of metadata."""

    def __init__(self, inner: Any, names: Sequence[str], keys: Mapping[str, str]) -> None:
        self._inner = inner
        self._keys = dict(keys)
        self._columns = list(names)

    def project(self, columns: Sequence[str]) -> None:
        """Read these columns only."""
        self._columns = list(columns)
        inner = [name for name in columns if name not in self._keys]
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
        """Add the columns of the file."""
        info = files.info(part.path) or FileInfo(part.path, part.size or 0, 0)
        added = [self._column(name, info) for name in self._keys]
        for frame, following in self._inner.read(part, files, position, batch_size, faults):
            yield frame.with_columns(added).select(self._columns), following

    def _column(self, name: str, info: FileInfo) -> pl.Expr:
        kind, take = METADATA[self._keys[name]]
        return pl.lit(take(info)).cast(dtype_of(kind)).alias(name)
