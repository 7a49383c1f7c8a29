"""Parquet and ORC files that are read in columns."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pyarrow.orc
import pyarrow.parquet

from penstock.files.file_info import FileInfo
from penstock.files.file_system import FileSystem
from penstock.formats.base.file_formats import FilePart
from penstock.formats.frames.reading import FrameFormat
from penstock.formats.frames.times_of_day import read_times


class ParquetFrames(FrameFormat):
    """Parquet; large files are read in parts of row groups."""

    title = "Parquet"

    def plan(
        self, file: FileInfo, files: FileSystem, part_size: int
    ) -> list[tuple[int, int | None]]:
        """Give each file as one part: rows of a file are in the order of time, and parts would be read side by side."""
        return [(0, None)] if file.size else []

    def frames(self, part: FilePart, files: FileSystem, rows: int) -> Iterator[pl.DataFrame]:
        """Read batches of columns."""
        with files.open_input(part.path) as stream:
            parquet = pyarrow.parquet.ParquetFile(stream)
            there = set(parquet.schema_arrow.names)
            columns = [name for name in self.columns if name in there]
            for batch in parquet.iter_batches(rows, columns=columns):
                yield pl.DataFrame(pl.from_arrow(batch))


class OrcFrames(FrameFormat):
    """ORC."""

    title = "ORC"

    def plan(
        self, file: FileInfo, files: FileSystem, part_size: int
    ) -> list[tuple[int, int | None]]:
        """Give each file as one part."""
        return [(0, None)] if file.size else []

    def frames(self, part: FilePart, files: FileSystem, rows: int) -> Iterator[pl.DataFrame]:
        """Read stripe by stripe."""
        with files.open_input(part.path) as stream:
            orc = pyarrow.orc.ORCFile(stream)
            for number in range(orc.nstripes):
                frame = pl.DataFrame(pl.from_arrow(orc.read_stripe(number, columns=self.columns)))
                frame = frame.with_columns(read_times(frame, self.schema))
                for start in range(0, frame.height, rows):
                    yield frame.slice(start, rows)
