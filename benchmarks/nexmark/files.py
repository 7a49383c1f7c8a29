"""Nexmark's events in files: one directory per kind of event, as Parquet or CSV."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from benchmarks.nexmark.generator import Nexmark

KINDS: Final = ("person", "auction", "bid")
SIDE_KEYS: Final = 10_000


@dataclass(frozen=True)
class Files:
    """Where the events of a data set are. There are as many files of each kind as readers, and each spans the whole time: no event is late, whichever reader reads which file."""

    events: Nexmark
    format: str = "parquet"
    files: int = 2

    @property
    def name(self) -> str:
        return f"nexmark-{self.events.events}-{self.events.rate}-{self.format}-{self.files}"

    def write(self, root: Path) -> Path:
        """Write the files below `root`, unless they are there."""
        home = root / self.name
        marker = home.with_suffix(".json")
        if marker.exists():
            return home
        shutil.rmtree(home, ignore_errors=True)
        writers: dict[tuple[str, int], Any] = {}
        for numbers in self.events.chunks():
            events = self.events.chunk(numbers)
            for kind in KINDS:
                table = getattr(events, kind)
                for part in range(self.files):
                    self._append(writers, home, kind, part, table[part :: self.files])
        for writer in writers.values():
            writer.close()
        self._write_side_input(home)
        marker.write_text(json.dumps(asdict(self)))
        return home

    def _append(
        self,
        writers: dict[tuple[str, int], Any],
        home: Path,
        kind: str,
        part: int,
        rows: pl.DataFrame,
    ) -> None:
        table = _as_arrow(rows, self.format)
        writer = writers.get((kind, part))
        if writer is None:
            folder = home / kind
            folder.mkdir(parents=True, exist_ok=True)
            writer = writers[kind, part] = self._open(
                folder / f"part-{part}.{self.format}", table.schema
            )
        writer.write_table(table)

    def _open(self, path: Path, schema: pa.Schema) -> Any:
        if self.format == "csv":
            options = pa.csv.WriteOptions(include_header=False, quoting_style="none")
            return pa.csv.CSVWriter(path, schema, write_options=options)
        # Flink's reader knows neither LZ4 nor the newer pages.
        return pa.parquet.ParquetWriter(path, schema, compression="snappy", version="1.0")

    def _write_side_input(self, home: Path) -> None:
        folder = home / "side_input"
        folder.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{key},value-{key}\n" for key in range(SIDE_KEYS))
        (folder / "part-0.csv").write_text(lines)


def _as_arrow(rows: pl.DataFrame, form: str) -> pa.Table:
    if form == "csv":
        rows = rows.with_columns(
            pl.col(name).dt.strftime("%Y-%m-%d %H:%M:%S%.3f")
            for name, kind in rows.schema.items()
            if kind.is_temporal()
        )
    table = rows.to_arrow()
    return table.cast(
        pa.schema(
            [
                (
                    f.name,
                    pa.string() if f.type == pa.large_string() or "view" in str(f.type) else f.type,
                )
                for f in table.schema
            ]
        )
    )
