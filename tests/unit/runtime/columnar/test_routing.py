"""Rows of columns go where their keys go by themselves."""

from __future__ import annotations

import datetime as dt
import random
import subprocess
import sys
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from penstock.errors import ArgumentTypeError
from penstock.graph.key_groups import key_group_of, subtask_of
from penstock.runtime.columnar.batch import ColumnBatch, batch_of_columns
from penstock.runtime.columnar.keys import ColumnsKey, keys_of
from penstock.runtime.columnar.routing import key_groups_of
from penstock.runtime.records import RowBatch, batch_of

VALUES: list[list[Any]] = [
    [None, -1, -2, 0, 1, 2**61 - 1, 2**61, -(2**63), 2**63 - 1, 12345678901],
    ["a", "b", "é", "", None],
    [1.5, -0.0, 2.0, None, 1e300],
    [True, False, None],
    [dt.datetime(2020, 1, 1, 12), None, dt.datetime(1960, 5, 5)],
    [dt.date(2020, 1, 1), None],
    [Decimal("1.50"), Decimal("2.00"), None],
    [[1, 2], [], None],
    [b"x", b"", None],
    [{"a": 1, "b": "x"}, {"a": None, "b": "y"}],
    [None, -1, -2, 0, 1, 2**40, -(2**40), 2**61 - 2],  # all hash as they are, but -1
]


def frame(rows: int = 300) -> pl.DataFrame:
    rng = random.Random(5)
    return pl.DataFrame(
        {
            f"c{at}": pl.Series([rng.choice(values) for _ in range(rows)])
            for at, values in enumerate(VALUES)
        }
    )


@pytest.mark.parametrize(
    "columns", [*[(at,) for at in range(len(VALUES))], (), (0, 1), (3, 2, 7), (9, 4)], ids=str
)
def test_the_key_group_of_columns_is_that_of_the_key(columns: tuple[int, ...]) -> None:
    rows = frame()
    expected = [key_group_of(key, 128) for key in keys_of(rows, columns)]
    series = [rows[f"c{at}"] for at in columns]
    assert key_groups_of(series, rows.height, 128).tolist() == expected


def test_rows_are_scattered_to_the_owners_of_their_keys() -> None:
    rows = frame()
    batch = ColumnBatch(rows)
    pending: dict[int, ColumnBatch] = {}
    targets = batch.routes_of(ColumnsKey((0, 1)), 3, 128)
    batch.scatter(targets, pending)
    assert sum(map(len, pending.values())) == rows.height
    for target, part in pending.items():
        for key in keys_of(part.frame, (0, 1)):
            assert subtask_of(key_group_of(key, 128), 3, 128) == target


def test_rows_without_kinds_are_inserts_when_others_are_put_to_them() -> None:
    def part(*numbers: int, kinds: list[int] | None = None) -> ColumnBatch:
        made = pl.DataFrame({"c0": numbers})
        return ColumnBatch(
            made if kinds is None else made.with_columns(pl.Series("$kind", kinds, pl.Int8))
        )

    batch = part(1, 2)
    batch.extend(part(3))
    assert batch.kinds is None
    batch.extend(part(4, 5, kinds=[1, 2]))
    batch.extend(part(6))
    assert batch.kinds is not None
    assert batch.kinds.tolist() == [0, 0, 0, 1, 2, 0]
    assert batch.frame["c0"].to_list() == [1, 2, 3, 4, 5, 6]


_READING = """
import sys
from penstock.runtime.task.shared import subtask
from penstock.runtime.network.buffers import decode
assert "penstock.runtime.columnar.batch" not in sys.modules
print(decode(sys.stdin.buffer.read()).extract(lambda row: row))
"""
_MAKING = """
import sys
import polars as pl
from penstock.runtime.task.shared import subtask
from penstock.runtime.records import batch_of
assert "penstock.runtime.columnar.batch" not in sys.modules
print(batch_of(pl.DataFrame({"a": [1, 2]}), None).extract(lambda row: row))
"""


@pytest.mark.parametrize(
    ("code", "given", "printed"),
    [
        pytest.param(_READING, ColumnBatch(frame(10)).encode(), frame(10).rows(), id="a buffer"),
        pytest.param(_MAKING, b"", [(1,), (2,)], id="of a source"),
    ],
)
def test_a_task_that_has_no_columns_yet_loads_them(
    code: str, given: bytes, printed: list[tuple[Any, ...]]
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, check=False
    )
    assert (ran.returncode, ran.stdout.decode().strip()) == (0, str(printed)), ran.stderr


def test_records_that_are_neither_rows_nor_columns_are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="a source read its records as a tuple"):
        batch_of((1, 2), None)


def test_what_a_source_reads_as_columns_gets_places_instead_of_names() -> None:
    table = pl.DataFrame({"id": [1], "$kind": pl.Series([2], dtype=pl.Int8), "name": ["a"]})
    batch = batch_of(table, None)
    assert isinstance(batch, ColumnBatch)
    assert batch.frame.columns == ["c0", "c1", "$kind"]
    assert batch.frame.rows() == [(1, "a", 2)]
    assert batch_of_columns(batch.frame).frame is batch.frame
    assert isinstance(batch_of([1], None), RowBatch)
