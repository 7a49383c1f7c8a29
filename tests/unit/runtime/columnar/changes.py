"""Helpers for tests of columnar operators: batches of rows, and changelogs as lists."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from penstock.graph.operator_specs import OperatorSpec
from penstock.graph.operator_specs.columnar.common import KIND
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.dtypes import schema_of
from penstock.sql.types import DataType
from penstock.testing.harness import HarnessSnapshot, OperatorHarness

KINDS = ("+I", "-U", "+U", "-D")


class FrameOutput:
    """Keeps what a columnar operator emits, in order: frames, watermarks, statuses."""

    def __init__(self) -> None:
        self.frames: list[pl.DataFrame] = []
        self.watermarks: list[int] = []

    def emit(self, batch: Any) -> None:
        self.frames.append(batch.frame)

    def emit_side(self, tag: str, batch: Any) -> None:
        raise AssertionError(tag)

    def emit_watermark(self, watermark: int) -> None:
        self.watermarks.append(watermark)

    def emit_status(self, idle: bool) -> None:
        pass


class ColumnDriver:
    """A harness for columnar operators whose output is kept as frames."""

    def __init__(
        self,
        spec: OperatorSpec,
        types: Sequence[DataType],
        *,
        backend: str = "hashmap",
        snapshots: Sequence[HarnessSnapshot] = (),
        out: FrameOutput | None = None,
        **options: Any,
    ) -> None:
        self._spec, self._types, self._options = spec, types, {**options, "state_backend": backend}
        self.out = out or FrameOutput()
        self.harness = OperatorHarness(spec, snapshots=snapshots, output=self.out, **self._options)

    def feed(self, rows: Sequence[Any]) -> None:
        self.harness.process_batch(batch_of(rows, self._types))

    def restarted(self) -> ColumnDriver:
        """Another one that goes on from a snapshot; what was emitted is kept."""
        snapshot = self.harness.snapshot()
        options = {**self._options, "backend": self._options["state_backend"]}
        del options["state_backend"]
        return ColumnDriver(self._spec, self._types, snapshots=[snapshot], out=self.out, **options)

    @property
    def changes(self) -> list[tuple[str, tuple[Any, ...]]]:
        return changes_of(self.out.frames)


def batch_of(rows: Sequence[Any], types: Sequence[DataType]) -> ColumnBatch:
    """A batch of tuples, or of pairs of a kind and a tuple where there are changes."""
    changes = [row if isinstance(row[0], str) and row[0] in KINDS else ("+I", row) for row in rows]
    frame = pl.DataFrame([row for _, row in changes], schema=schema_of(types), orient="row")
    kinds = [KINDS.index(kind) for kind, _ in changes]
    if any(kinds):
        frame = frame.with_columns(pl.Series(KIND, kinds, dtype=pl.Int8))
    return ColumnBatch(frame)


def changes_of(frames: Iterable[pl.DataFrame]) -> list[tuple[str, tuple[Any, ...]]]:
    """The rows of batches with their kinds."""
    found = []
    for frame in frames:
        if KIND in frame.columns:
            kinds = frame[KIND].to_list()
            found += [
                (KINDS[kind], row) for kind, row in zip(kinds, frame.drop(KIND).rows(), strict=True)
            ]
        else:
            found += [("+I", row) for row in frame.rows()]
    return found


def table_of(
    changes: Iterable[tuple[str, tuple[Any, ...]]], keys: Sequence[int] | None = None
) -> Counter[tuple[Any, ...]]:
    """The table that a changelog leaves; by key if it has no -U rows. Rows are as text, so that NaN and lists can be counted."""
    table: Counter[Any] = Counter()
    last: dict[Any, Any] = {}
    for kind, row in changes:
        shown = tuple(map(repr, row))
        if keys is not None:
            key = tuple(shown[at] for at in keys)
            if kind == "-D":
                last.pop(key, None)
            elif kind != "-U":
                last[key] = shown
            continue
        table[shown] += -1 if kind in {"-U", "-D"} else 1
        assert table[shown] >= 0, f"{kind} {row} takes away what is not there"
        if not table[shown]:
            del table[shown]
    return Counter(last.values()) if keys is not None else table


def cut(rows: Sequence[Any], seed: int) -> list[list[Any]]:
    """The rows in batches of random sizes."""
    rng = random.Random(seed)
    parts, at = [], 0
    while at < len(rows):
        size = rng.choice([1, 2, 7, 15, 20])
        parts.append(list(rows[at : at + size]))
        at += size
    return parts
