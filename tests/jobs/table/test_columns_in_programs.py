"""Tables of Arrow and Polars data in programs, and the rows of queries as such data: bounded and unbounded."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from penstock.connectors.base.frames import FrameCollectSink, FrameSource
from penstock.errors import ArgumentError, ArgumentTypeError, InvalidProgramError
from penstock.graph.operator_specs.columnar.stateless import ColumnsToRowsSpec, RowsToColumnsSpec
from penstock.runtime.columnar.arrow_types import arrow_type
from penstock.runtime.columnar.dtypes import dtype_with_maps
from penstock.sql.execution.planner import Planner
from penstock.sql.parse.types import data_type_of
from penstock.table import DataTypes, EnvironmentSettings, TableEnvironment

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "table-api.md"
NUMBERS = """CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100',
  'fields.id.min' = '1', 'fields.id.max' = '1000000000')"""
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


@pytest.mark.parametrize("form", ["arrow", "polars"])
def test_an_unbounded_query_is_read_in_batches_and_cancelled(env, form) -> None:
    env.get_config().set("penstock.execution.mode", "pipelined")
    env.execute_sql(NUMBERS)
    numbers = env.sql_query("SELECT id FROM numbers WHERE id > 10")
    with pytest.raises(InvalidProgramError, match=f"to_{form}.. would never end") as raised:
        getattr(numbers, f"to_{form}")()
    assert f"to_{form}_batches()" in raised.value.hint
    batches = getattr(numbers, f"to_{form}_batches")()
    first = pl.DataFrame(next(batches))
    assert first.columns == ["row_kind", "id"]
    assert first["id"].min() > 10
    batches.close()
    assert batches.get_job_client().get_job_status().result().name == "CANCELED"
    assert list(batches) == []


def test_a_column_with_the_name_of_the_kinds_is_refused(env) -> None:
    table = env.from_polars(pl.DataFrame({"row_kind": [1]}))
    with pytest.raises(ArgumentError, match="column 'row_kind' exists"):
        table.to_polars_batches()
    assert table.to_polars()["row_kind"].to_list() == [1]


def test_no_rows_are_made_on_the_way(env, monkeypatch) -> None:
    """The job has no step that converts rows and columns, and nothing that makes Python values of columns is called."""
    jobs = []
    start = Planner._start
    monkeypatch.setattr(
        Planner, "_start", lambda self, last, name: jobs.append(last) or start(self, last, name)
    )

    def forbidden(*_, **__):
        raise AssertionError("columns were turned into Python values")

    for name in ("rows", "iter_rows", "to_dicts", "to_dict"):
        monkeypatch.setattr(pl.DataFrame, name, forbidden)
    monkeypatch.setattr("penstock.runtime.columnar.values.values_of_series", forbidden)
    monkeypatch.setattr("penstock.runtime.columnar.values.series_of", forbidden)
    table = pa.table({"n": [1, 2], "word": ["a", None], "tags": [[1], []], "row": [{"x": 1}, None]})
    back = env.from_arrow(table).to_arrow()
    frame = env.from_polars(pl.DataFrame(table)).to_polars()
    with env.from_arrow(table).to_arrow_batches() as batches:
        assert sum(each.num_rows for each in batches) == 2
    monkeypatch.undo()
    assert back.equals(table)
    assert frame.equals(pl.DataFrame(table))
    assert len(jobs) == 3
    for job in jobs:
        specs = [each.spec for each in steps_above(job) if hasattr(each, "spec")]
        assert not [
            each for each in specs if isinstance(each, ColumnsToRowsSpec | RowsToColumnsSpec)
        ]
        assert [type(each.source) for each in specs if hasattr(each, "source")] == [FrameSource]
        assert [type(each.sink) for each in specs if hasattr(each, "sink")] == [FrameCollectSink]


def steps_above(steps):
    for step in steps:
        yield step
        yield from steps_above(step.inputs)


@pytest.mark.parametrize(
    ("method", "data", "message", "hint"),
    [
        ("from_arrow", pd.DataFrame({"a": [1]}), "got pandas.DataFrame", "use from_pandas()"),
        ("from_arrow", WORDS, "got polars.DataFrame", "use from_polars()"),
        ("from_arrow", [1, 2], "got list", "__arrow_c_stream__"),
        ("from_polars", pd.DataFrame({"a": [1]}), "got pandas.DataFrame", "use from_pandas()"),
        ("from_polars", pa.table({"a": [1]}), "got pyarrow.Table", "use from_arrow()"),
        ("from_polars", pl.DataFrame({"a": [object()]}), "Polars type Object", "convert it before"),
        (
            "from_polars",
            pl.DataFrame({"a": [1]}, {"a": pl.Int128}),
            "Polars type Int128",
            "cast it before",
        ),
    ],
)
def test_other_data_is_refused(env, method, data, message, hint) -> None:
    with pytest.raises(ArgumentTypeError, match=re.escape(message)) as raised:
        getattr(env, method)(data)
    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (["a"], "2 columns, but the schema has 1"),
        (["a", "a"], "more than once"),
        ("ab", "invalid schema"),
        ([1, 2], "invalid schema"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(env, schema, message) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        env.from_arrow(pa.table({"n": [1], "word": ["a"]}), schema)


def test_data_without_columns_is_refused(env) -> None:
    with pytest.raises(ArgumentError, match="no columns"):
        env.from_polars(pl.DataFrame())
    with pytest.raises((ArgumentError, ArgumentTypeError), match="splits_num"):
        env.from_polars(WORDS, splits_num=0)


def test_categories_are_their_values(env) -> None:
    frame = pl.DataFrame({"a": ["x", "y", "x"]}, {"a": pl.Categorical}).with_columns(
        b=pl.Series(["x", "y", "x"], dtype=pl.Enum(["x", "y"]))
    )
    assert env.from_polars(frame).to_polars().rows() == [("x", "x"), ("y", "y"), ("x", "x")]


def test_the_page_has_the_types() -> None:
    rows = [
        re.findall(r"`([^`]+)`", line)
        for line in PAGE.read_text().splitlines()
        if re.match(r"\| `[A-Z]", line)
    ]
    rows = [row for row in rows if len(row) == 3]
    assert len(rows) == 24
    for sql, arrow, polars in rows:
        kind = data_type_of(sql)
        assert (str(arrow_type(kind)), str(dtype_with_maps(kind))) == (arrow, polars), sql
