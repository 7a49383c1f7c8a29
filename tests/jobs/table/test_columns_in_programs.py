"""Tables of Arrow and Polars data in programs, and the rows of queries as such data: bounded and unbounded."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from penstock.table import DataTypes, EnvironmentSettings, TableEnvironment

WORDS = pl.DataFrame(
    {"n": [1, 2, 3, 4], "word": ["to", "be", None, "to"], "tags": [[1], [], None, [2, 3]]}
)
COUNTS = "SELECT word, COUNT(*) AS n FROM {} GROUP BY word"


@pytest.fixture
def env(cluster):
    return TableEnvironment.create(EnvironmentSettings.in_streaming_mode())


def test_a_polars_frame_there_and_back(env) -> None:
    assert env.from_polars(WORDS).to_polars().equals(WORDS)
    assert env.from_polars(WORDS.lazy(), splits_num=3).to_polars().sort("n").equals(WORDS)
    assert env.from_polars(WORDS.clear()).to_polars().equals(WORDS.clear())


def test_arrow_data_of_all_forms(env, tmp_path) -> None:
    table = pa.table({"n": pa.array([1, 2, 3], pa.int32()), "word": ["a", None, "c"]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    forms = [
        table,
        table.to_batches()[0],
        table.to_reader(),
        pa.dataset.dataset(tmp_path),
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches(2)),
    ]
    for form in forms:
        assert env.from_arrow(form).to_arrow().equals(table), type(form)


def test_a_schema_replaces_names_and_types(env) -> None:
    table = pa.table({"n": [1, 2], "word": ["a", "b"]})
    assert env.from_arrow(table, ["x", "y"]).to_polars().columns == ["x", "y"]
    types = [DataTypes.TINYINT(nullable=False), DataTypes.VARCHAR(5)]
    made = env.from_arrow(table, types).to_arrow()
    assert [str(each.type) for each in made.schema] == ["int8", "string"]
    assert [each.nullable for each in made.schema] == [False, True]
    row = DataTypes.ROW(
        [DataTypes.FIELD("x", DataTypes.DOUBLE()), DataTypes.FIELD("y", DataTypes.STRING())]
    )
    assert env.from_polars(pl.DataFrame(table), row).to_polars().schema == {
        "x": pl.Float64,
        "y": pl.String,
    }


def test_changes_are_applied_to_what_is_returned_at_the_end(env) -> None:
    env.get_config().set("penstock.execution.mode", "pipelined")
    counts = env.sql_query(COUNTS.format(env.from_polars(WORDS)))
    wanted = {("to", 2), ("be", 1), (None, 1)}
    assert set(counts.to_polars().rows()) == wanted
    assert {tuple(row.values()) for row in counts.to_arrow().to_pylist()} == wanted
    assert (
        set(counts.to_pandas().replace({float("nan"): None}).itertuples(index=False, name=None))
        == wanted
    )


def test_a_result_without_rows_has_its_columns(env) -> None:
    none = env.sql_query(f"SELECT * FROM {env.from_polars(WORDS)} WHERE n > 100")
    assert none.to_polars().schema == WORDS.schema
    assert none.to_arrow().schema.names == WORDS.columns
    assert none.to_arrow().num_rows == 0


@pytest.mark.parametrize("form", ["arrow", "polars"])
def test_batches_have_the_kinds_of_changes(env, form) -> None:
    env.get_config().set("penstock.execution.mode", "pipelined")
    ordered = env.from_polars(pl.DataFrame({"k": [1, 1, 1]}), splits_num=3)
    env.get_config().set("table.exec.mini-batch.enabled", "false")
    counts = env.sql_query(f"SELECT k, COUNT(*) AS n FROM {ordered} GROUP BY k")
    with getattr(counts, f"to_{form}_batches")() as batches:
        frames = [pl.DataFrame(each) for each in batches]
    assert {tuple(each.columns) for each in frames} == {("row_kind", "k", "n")}
    changes = pl.concat([each.cast({"row_kind": pl.String}) for each in frames])
    signs = changes.with_columns(
        pl.when(pl.col("row_kind").str.starts_with("+")).then(1).otherwise(-1).alias("s")
    )
    left = signs.group_by("k", "n").agg(pl.col("s").sum()).filter(pl.col("s") != 0)
    assert left.rows() == [(1, 3, 1)]
    assert changes["row_kind"][0] == "+I"
