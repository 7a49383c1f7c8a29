"""The parts of the source of DataFrames that need no Spark: its splits, its reader, where it may be sent."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from penstock.common import Row, Types
from penstock.connectors.base.source import Boundedness, ReadLimits, SourceSplit
from penstock.connectors.spark.source import DataFrameEnumerator, DataFrameSource
from penstock.errors import RecordError, RestoreRefusedError, UnsupportedOperationError
from penstock.pickling.portable_pickles import for_a_driver
from penstock.runtime.columnar.arrow_files import write_arrow_file
from penstock.sql import types as t
from penstock.sql.parse.types import data_type_of
from tests.builders.connector_helpers import read_split

COLUMNS = t.RowType([t.RowField("id", t.BigIntType()), t.RowField("name", t.VarCharType())])


class Frame:
    """Stands for a DataFrame where only its place matters: it cannot be pickled, as the real one."""

    def __reduce__(self) -> Any:
        raise TypeError("a DataFrame cannot be pickled")


def source_of(columns: t.RowType = COLUMNS, *, columnar: bool = False) -> DataFrameSource:
    frame: Any = Frame()
    return DataFrameSource(frame, columns, "orders", columnar=columnar)


def split_of(tmp_path, table: pa.Table, name: str = "part-00000-x.arrow") -> SourceSplit:
    file = write_arrow_file(str(tmp_path / name), table.to_batches())
    return SourceSplit("part-00000", file, 0, bounded=True)


def people(count: int) -> pa.Table:
    return pa.table({"id": list(range(count)), "name": [f"n{at}" for at in range(count)]})


# Reading


def test_rows_have_the_names_of_the_columns(tmp_path):
    split = split_of(tmp_path, people(5))
    source = pickle.loads(pickle.dumps(source_of()))
    batches = list(source.create_reader().read(split, 3, ReadLimits(batch_size=1)))
    assert [batch.records for batch in batches] == [
        [Row(id=3, name="n3")],
        [Row(id=4, name="n4")],
    ]
    assert [batch.position for batch in batches] == [4, 5]
    assert read_split(source.create_reader(), split, 5) == []


def test_a_program_that_reads_other_columns_than_were_written_is_refused(tmp_path):
    split = split_of(tmp_path, people(5))
    fewer = t.RowType([t.RowField("name", t.VarCharType())])
    assert read_split(source_of(fewer).create_reader(), split, 4) == [Row(name="n4")]
    other = t.RowType([t.RowField("price", t.BigIntType())])
    with pytest.raises(RecordError, match="have no column 'price'") as refused:
        read_split(source_of(other).create_reader(), split)
    assert "id, name" in str(refused.value.detail)


def test_columns_stay_columns(tmp_path):
    split = split_of(tmp_path, people(5))
    (batch,) = source_of(columnar=True).create_reader().read(split, 2, ReadLimits(batch_size=1))
    records: Any = batch.records
    assert records.equals(pl.DataFrame({"c0": [2, 3, 4], "c1": ["n2", "n3", "n4"]}))
    assert batch.position == 5


def test_values_are_those_of_tables(tmp_path):
    columns = {
        "at": ("TIMESTAMP_LTZ(6)", pa.timestamp("us", "Europe/Vienna")),
        "local": ("TIMESTAMP(6)", pa.timestamp("us")),
        "span": ("INTERVAL DAY TO SECOND", pa.duration("us")),
        "months": ("INTERVAL YEAR TO MONTH", pa.int32()),
        "price": ("DECIMAL(10, 2)", pa.decimal128(10, 2)),
        "tags": ("MAP<STRING, ARRAY<INT>>", pa.map_(pa.string(), pa.list_(pa.int32()))),
        "inner": ("ROW<`a` INT>", pa.struct([("a", pa.int32())])),
    }
    noon = dt.datetime(2026, 3, 1, 12)
    values = [
        noon.replace(tzinfo=dt.UTC), noon, dt.timedelta(days=1), 14, Decimal("1.50"), {"k": [1]}, {"a": 7},
    ]  # fmt: skip
    arrays = [
        pa.array([value, None], kind)
        for value, (_, kind) in zip(values, columns.values(), strict=True)
    ]
    table = pa.table(arrays, names=list(columns))
    kinds = t.RowType([t.RowField(name, data_type_of(text)) for name, (text, _) in columns.items()])
    first, second = read_split(source_of(kinds).create_reader(), split_of(tmp_path, table))
    assert list(first) == [*values[:-1], Row(a=7)]
    assert first["at"].utcoffset() == dt.timedelta(0)
    assert list(second) == [None] * len(columns)


def test_streams_know_the_types_of_their_rows():
    assert source_of().get_produced_type() == Types.ROW_NAMED(
        ["id", "name"], [Types.LONG(), Types.STRING()]
    )
    assert source_of(columnar=True).get_produced_type() is None
    assert source_of().get_boundedness() is Boundedness.BOUNDED


# Splits


def enumerator_of(written: list[Any], restored: Any = None) -> DataFrameEnumerator:
    def write(interrupted: Any) -> list[SourceSplit]:
        written.append(interrupted)
        return [SourceSplit("part-00000", None, 0, bounded=True)]

    return DataFrameEnumerator(write, restored)


def test_the_dataframe_is_read_once():
    written: list[Any] = []
    enumerator = enumerator_of(written)
    assert (enumerator.no_more_splits(), enumerator.snapshot()) == (False, None)
    enumerator.prepare(interrupted := lambda: False)
    enumerator.prepare(lambda: False)
    assert written == [interrupted]
    assert (enumerator.no_more_splits(), enumerator.snapshot()) == (False, None)
    assert [split.split_id for split in enumerator.discover()] == ["part-00000"]
    assert enumerator.discover() == []
    assert enumerator.no_more_splits()
    assert enumerator.snapshot() is not None


def test_a_restored_job_does_not_read_it_again():
    written: list[Any] = []
    first = enumerator_of([])
    first.discover()
    enumerator = enumerator_of(written, first.snapshot())
    enumerator.prepare(lambda: False)
    assert enumerator.discover() == []
    assert enumerator.no_more_splits()
    assert written == []


def test_an_attempt_before_the_first_checkpoint_uses_what_the_one_before_has_read():
    written: list[Any] = []
    before, after = enumerator_of(written), enumerator_of(written)
    before.discover()
    after.take_over(before)
    after.prepare(lambda: False)
    assert [split.split_id for split in after.discover()] == ["part-00000"]
    assert len(written) == 1


def test_an_attempt_whose_predecessor_has_read_nothing_reads_it():
    written: list[Any] = []
    before, after = enumerator_of(written), enumerator_of(written)
    after.take_over(before)
    assert [split.split_id for split in after.discover()] == ["part-00000"]
    assert len(written) == 1


def test_the_backlog_is_in_rows(tmp_path):
    from penstock.connectors.base.source import SplitProgress

    split = split_of(tmp_path, people(5))
    enumerator = enumerator_of([])
    assert enumerator.backlog([SplitProgress(split, 2), SplitProgress(split, None)]) == 8
    assert enumerator.backlog_unit == "records"


def test_another_job_reads_files_that_still_exist(tmp_path):
    split = split_of(tmp_path, people(5))
    assert source_of().adopt_split(split) is split
    (tmp_path / "part-00000-x.arrow").unlink()
    with pytest.raises(RestoreRefusedError, match="DataFrame 'orders'") as refused:
        source_of().adopt_split(split)
    assert "execution.checkpointing.dir" in str(refused.value.hint)


# Where it may be sent


def test_the_dataframe_is_not_sent_to_tasks():
    sent = pickle.loads(pickle.dumps(source_of()))
    with pytest.raises(RecordError, match="the DataFrame 'orders' is missing"):
        sent.write_splits(lambda: False)


def test_a_session_elsewhere_cannot_read_it():
    with (
        for_a_driver(),
        pytest.raises(UnsupportedOperationError, match="cannot be sent to another JobManager"),
    ):
        pickle.dumps(source_of())
