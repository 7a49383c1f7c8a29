"""Tables of files: what SQL writes is what SQL reads, in every format, with partitions."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import polars as pl
import pyarrow.orc
import pyarrow.parquet
import pytest

from penstock.common import Row
from penstock.errors import ConfigurationError, JobExecutionError, UnsupportedOperationError
from penstock.sql.errors import ValidationError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster
from penstock.testing.faults import StepFault, protocol_faults
from tests.builders.cases import check_all

COLUMNS = "id BIGINT, s STRING, d DOUBLE, m DECIMAL(10, 2), b BOOLEAN, ts TIMESTAMP(3), day_ DATE"
ROWS = """
  (1, 'a,"b"', 1.5, 2.25, TRUE, TIMESTAMP '2024-01-01 10:00:00.123', DATE '2024-01-01'),
  (2, 'x', -0.5, -1.00, FALSE, TIMESTAMP '2024-01-02 00:00:00', DATE '2024-02-29')
"""


@pytest.fixture
def tables() -> TableEnvironment:
    return TableEnvironment.create(EnvironmentSettings.in_streaming_mode())


def rows_of(tables: TableEnvironment, query: str) -> Counter[tuple[Any, ...]]:
    with tables.execute_sql(query).collect() as rows:
        return Counter(tuple(map(str, row)) for row in rows)


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "orc"])
def test_what_is_written_is_read(tables: TableEnvironment, tmp_path: Path, form: str) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = '{form}'"
    tables.execute_sql(f"CREATE TABLE t ({COLUMNS}) WITH ({given})")
    with MiniCluster():
        tables.execute_sql(f"INSERT INTO t VALUES {ROWS}").wait()
        found = rows_of(tables, "SELECT * FROM t")
        some = rows_of(tables, "SELECT m, id FROM t WHERE id > 1")
    assert found == rows_of_values()
    assert some == {("-1.00", "2"): 1}


#: Of each field its Avro type, its SQL type, values in the file, and values of the table.
AVRO: dict[str, tuple[Any, str, list[Any], list[Any]]] = {
    "nothing": ("null", "STRING", [None, None], [None, None]),
    "numbers": (["int", "long"], "BIGINT", [1, 1 << 40], [1, 1 << 40]),
    "wider": (["null", "int", "double"], "DOUBLE", [2, 2.5], [2.0, 2.5]),
    "counts": ({"type": "map", "values": "int"}, "MAP<STRING, INT>", [{"a": 1}, {}], [{"a": 1}, {}]),
    "at": (
        {"type": "long", "logicalType": "timestamp-millis"},
        "TIMESTAMP(3)",
        [dt.datetime(2024, 5, 1, 9, 30, tzinfo=dt.UTC)] * 2,
        [dt.datetime(2024, 5, 1, 9, 30)] * 2,
    ),
    "price": (
        {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        "DECIMAL(6, 2)",
        [Decimal("1.50"), Decimal("-2.25")],
        [Decimal("1.50"), Decimal("-2.25")],
    ),
    "key": (
        {"type": "string", "logicalType": "uuid"},
        "STRING",
        [uuid.UUID(int=7), uuid.UUID(int=8)],
        [str(uuid.UUID(int=7)), str(uuid.UUID(int=8))],
    ),
    "inside": (
        ["null", {"type": "record", "name": "Inside", "fields": [{"name": "m", "type": {"type": "map", "values": "string"}}]}],
        "ROW<m MAP<STRING, STRING>>",
        [{"m": {"x": "y"}}, None],
        [Row({"x": "y"}), None],
    ),
    "plain": ("int", "INT", [1, 2], [1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("codec", ["null", "bzip2"])
def test_avro_files_of_other_programs_are_read(
    tables: TableEnvironment, tmp_path: Path, codec: str
) -> None:
    def check(name: str) -> None:
        kind, sql, values, wanted = AVRO[name]
        schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind}]}
        directory = tmp_path / name
        directory.mkdir()
        with (directory / "part.avro").open("wb") as stream:
            fastavro.writer(stream, schema, [{name: each} for each in values], codec=codec)
        tables.execute_sql(
            f"CREATE TABLE {name}_table (`{name}` {sql}) WITH ('connector' = 'filesystem', 'path' = '{directory}', 'format' = 'avro')"
        )
        with tables.execute_sql(f"SELECT * FROM {name}_table").collect() as rows:
            assert [row[0] for row in rows] == wanted

    with MiniCluster():
        check_all({name: name for name in AVRO}, check)


def test_avro_files_are_written_and_read(tables: TableEnvironment, tmp_path: Path) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'avro'"
    tables.execute_sql(f"CREATE TABLE t (id BIGINT, s STRING, ts TIMESTAMP(3)) WITH ({given})")
    with MiniCluster():
        tables.execute_sql(
            "INSERT INTO t VALUES (1, 'a', TIMESTAMP '2024-01-01 10:00:00.123')"
        ).wait()
        found = rows_of(tables, "SELECT ts, id, s FROM t")
    assert found == {("2024-01-01 10:00:00.123000", "1", "a"): 1}


def rows_of_values() -> dict[tuple[str, ...], int]:
    return {
        ("1", 'a,"b"', "1.5", "2.25", "True", "2024-01-01 10:00:00.123000", "2024-01-01"): 1,
        ("2", "x", "-0.5", "-1.00", "False", "2024-01-02 00:00:00", "2024-02-29"): 1,
    }


def test_partitions_are_directories(tables: TableEnvironment, tmp_path: Path) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'parquet'"
    done = "'sink.partition-commit.policy.kind' = 'success-file'"
    tables.execute_sql(
        f"CREATE TABLE t (id BIGINT, dt STRING, hm STRING) PARTITIONED BY (dt, hm) WITH ({given}, {done})"
    )
    with MiniCluster():
        tables.execute_sql(
            "INSERT INTO t VALUES (1, '2024-01-01', '10:30'), (2, '2024-01-01', '10:31'), (3, '2024-01-02', CAST(NULL AS STRING))"
        ).wait()
        found = rows_of(tables, "SELECT hm, id, dt FROM t")
        counted = rows_of(tables, "SELECT dt, COUNT(*) FROM t WHERE hm = '10:30' GROUP BY dt")
    assert found == {
        ("10:30", "1", "2024-01-01"): 1,
        ("10:31", "2", "2024-01-01"): 1,
        ("None", "3", "2024-01-02"): 1,
    }
    assert counted == {("2024-01-01", "1"): 1}
    assert (tmp_path / "t/dt=2024-01-01/hm=10%3A30/_SUCCESS").exists()
    assert (tmp_path / "t/dt=2024-01-02/hm=__DEFAULT_PARTITION__").exists()


def test_invalid_line_fails_the_job_and_names_the_file(
    tables: TableEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_text("1,a\nx,b\n")
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv'"
    tables.execute_sql(f"CREATE TABLE t (id BIGINT, s STRING) WITH ({given})")
    with MiniCluster(), pytest.raises(JobExecutionError, match=r"rows\.csv"):
        rows_of(tables, "SELECT * FROM t")


def test_a_format_that_is_not_known_is_refused(tables: TableEnvironment, tmp_path: Path) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parket'"
    tables.execute_sql(f"CREATE TABLE t (id BIGINT) WITH ({given})")
    with pytest.raises(ConfigurationError, match="valid values are avro, canal-json, csv"):
        tables.execute_sql("SELECT * FROM t")


def lines_of(
    tables: TableEnvironment, folder: Path, columns: str, lines: list[str], **options: str
) -> None:
    """Make `t` known, whose only file has these lines."""
    folder.mkdir()
    (folder / "rows").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    given = {"connector": "filesystem", "path": str(folder), "format": "json", **options}
    shown = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    tables.execute_sql(f"CREATE TABLE t ({columns}) WITH ({shown})")


EVERYTHING = """(1, CAST(-7 AS TINYINT), CAST(300 AS SMALLINT), CAST(1.5 AS FLOAT), TIME '10:11:12', x'6869',
  TIMESTAMP '2024-01-01 10:00:00.123456', ARRAY[1, 2], MAP['a', 1], ROW(5, 'x'))"""
TYPES = "n INT, ti TINYINT, si SMALLINT, f FLOAT, t TIME, y BYTES, ts TIMESTAMP(6), a ARRAY<INT>, m MAP<STRING, INT>, r ROW<x INT, y STRING>"


@pytest.mark.parametrize("form", ["json", "parquet", "orc", "avro"])
def test_values_of_all_types_are_written_and_read(
    tables: TableEnvironment, tmp_path: Path, form: str
) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = '{form}'"
    tables.execute_sql(f"CREATE TABLE t ({TYPES}) WITH ({given})")
    with MiniCluster():
        tables.execute_sql(f"INSERT INTO t VALUES {EVERYTHING}").wait()
        with tables.execute_sql("SELECT * FROM t").collect() as found:
            (row,) = (tuple(each) for each in found)
    assert row[:4] == (1, -7, 300, 1.5)
    assert row[4:7] == (dt.time(10, 11, 12), b"hi", dt.datetime(2024, 1, 1, 10, 0, 0, 123456))
    assert row[7] == [1, 2]
    assert row[8] == {"a": 1}
    assert list(row[-1]) == [5, "x"]


MAPS = "m MAP<STRING, TINYINT>, a ARRAY<MAP<STRING, STRING>>, r ROW<i INT, m MAP<STRING, TIMESTAMP(3)>>, mm MAP<STRING, MAP<STRING, INT>>, n MAP<STRING, INT>"
NINE = dt.datetime(2024, 1, 1, 9)
MAP_VALUES = ({"a": 1, "b": None}, [{"x": "y"}], (7, {"t": NINE}), {"k": {"l": 2}}, None)
MAP_ROW = """SELECT MAP['a', CAST(1 AS TINYINT), 'b', CAST(NULL AS TINYINT)], ARRAY[MAP['x', 'y']],
  ROW(7, MAP['t', TIMESTAMP '2024-01-01 09:00:00.000']), MAP['k', MAP['l', 2]], CAST(NULL AS MAP<STRING, INT>)"""


def read_elsewhere(form: str, file: Path) -> tuple[Any, ...]:
    """Return the values of the only row of a file, as its own library reads them: maps are dictionaries."""
    if form == "avro":
        with file.open("rb") as stream:
            (row,) = fastavro.reader(stream)
    else:
        library = pyarrow.parquet if form == "parquet" else pyarrow.orc
        (row,) = library.read_table(file).to_pylist(maps_as_pydicts="strict")
    values = [tuple(each.values()) if name == "r" else each for name, each in row.items()]
    return tuple(values)


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_maps_are_maps_for_other_programs(
    tables: TableEnvironment, tmp_path: Path, form: str
) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = '{form}'"
    tables.execute_sql(f"CREATE TABLE t ({MAPS}) WITH ({given})")
    with MiniCluster():
        tables.execute_sql(f"INSERT INTO t {MAP_ROW}").wait()
        with tables.execute_sql("SELECT * FROM t").collect() as found:
            (row,) = (tuple(each) for each in found)
    (written,) = (tmp_path / "t").glob("part-*")
    assert read_elsewhere(form, written) == MAP_VALUES
    assert (*row[:2], tuple(row[2]), *row[3:]) == MAP_VALUES


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_multisets_are_maps_of_numbers(tables: TableEnvironment, tmp_path: Path, form: str) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = '{form}'"
    tables.execute_sql(f"CREATE TABLE t (s MULTISET<STRING>) WITH ({given})")
    tables.get_config().set("execution.runtime-mode", "batch")
    with MiniCluster():
        tables.execute_sql(
            "INSERT INTO t SELECT COLLECT(x) FROM (VALUES 'a', 'b', 'a') AS v (x)"
        ).wait()
        with tables.execute_sql("SELECT * FROM t").collect() as found:
            assert [tuple(each) for each in found] == [({"a": 2, "b": 1},)]
    (written,) = (tmp_path / "t").glob("part-*")
    assert read_elsewhere(form, written) == ({"a": 2, "b": 1},)


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_lists_of_keys_and_values_are_read_as_maps(
    tables: TableEnvironment, tmp_path: Path, form: str
) -> None:
    """Files of earlier versions have them."""
    frame = pl.DataFrame({"m": [[{"key": "a", "value": 1}], None]})
    if form == "avro":
        frame.write_avro(tmp_path / "old")
    else:
        library = pyarrow.parquet if form == "parquet" else pyarrow.orc
        library.write_table(frame.to_arrow(compat_level=pl.CompatLevel.oldest()), tmp_path / "old")
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = '{form}'"
    tables.execute_sql(f"CREATE TABLE t (m MAP<STRING, BIGINT>) WITH ({given})")
    with MiniCluster(), tables.execute_sql("SELECT * FROM t").collect() as found:
        assert [tuple(each) for each in found] == [({"a": 1},), (None,)]


def test_a_map_with_a_null_key_is_not_written(tables: TableEnvironment, tmp_path: Path) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet'"
    tables.execute_sql(f"CREATE TABLE t (m MAP<STRING, INT>) WITH ({given})")
    query = "INSERT INTO t SELECT MAP[CAST(NULL AS STRING), 1]"
    with MiniCluster(), pytest.raises(JobExecutionError, match="a map with a NULL key"):
        tables.execute_sql(query).wait()


def test_avro_takes_no_maps_whose_keys_are_not_strings(
    tables: TableEnvironment, tmp_path: Path
) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'avro'"
    tables.execute_sql(f"CREATE TABLE t (a ARRAY<MAP<INT, INT>>) WITH ({given})")
    with pytest.raises(
        ConfigurationError, match="Avro cannot represent the MAP<INT, INT> of column 'a'"
    ):
        tables.execute_sql("INSERT INTO t SELECT ARRAY[MAP[1, 2]]")


def test_json_lines_are_those_of_flink(tables: TableEnvironment, tmp_path: Path) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'json', 'json.encode.ignore-null-fields' = 'true'"
    tables.execute_sql(
        f"CREATE TABLE t (a INT, m MAP<STRING, INT>, p DECIMAL(5, 2), ts TIMESTAMP(3), l TIMESTAMP_LTZ(3)) WITH ({given})"
    )
    tables.get_config().set("table.local-time-zone", "Europe/Berlin")
    with MiniCluster():
        tables.execute_sql(
            "INSERT INTO t VALUES (CAST(NULL AS INT), MAP['k', 2], 1.5, TIMESTAMP '2024-01-01 10:00:00.120', "
            "CAST(TIMESTAMP '2024-01-01 10:00:00' AS TIMESTAMP_LTZ(3)))"
        ).wait()
    (written,) = (tmp_path / "t").glob("part-*")
    assert written.read_text() == (
        '{"m":{"k":2},"p":1.50,"ts":"2024-01-01 10:00:00.12","l":"2024-01-01 09:00:00Z"}\n'
    )


def test_json_values_become_those_of_the_columns(tables: TableEnvironment, tmp_path: Path) -> None:
    lines = ['{"i": "5", "s": 7, "b": "true", "m": 12345678901234567890.12345}', '{"s": {"x": 1}}']
    lines_of(tables, tmp_path / "t", "i INT, s STRING, b BOOLEAN, m DECIMAL(30, 5)", lines)
    with MiniCluster():
        assert rows_of(tables, "SELECT * FROM t") == {
            ("5", "7", "True", "12345678901234567890.12345"): 1,
            ("None", '{"x": 1}', "None", "None"): 1,
        }


def test_invalid_json_is_skipped_if_requested(tables: TableEnvironment, tmp_path: Path) -> None:
    lines = [
        '{"i": 1, "r": {"x": 1, "y": true}}',
        '{"i":',
        '{"i": "three", "s": "c"}',
        '{"i": 4000000000, "s": "d", "r": {"x": "z", "y": "true"}}',
        "[5]",
    ]
    options = {"json.ignore-parse-errors": "true"}
    columns = "i INT, s STRING, r ROW<x INT, y BOOLEAN>"
    lines_of(tables, tmp_path / "t", columns, lines, **options)
    with MiniCluster():
        assert rows_of(tables, "SELECT i, s, r.x, r.y FROM t") == {
            ("1", "None", "1", "True"): 1,
            ("None", "c", "None", "None"): 1,
            ("None", "d", "None", "True"): 1,
        }


def test_a_field_that_is_missing_fails_the_job_if_asked_for(
    tables: TableEnvironment, tmp_path: Path
) -> None:
    options = {"json.fail-on-missing-field": "true"}
    lines_of(tables, tmp_path / "t", "i INT, j INT", ['{"i": 1}'], **options)
    with MiniCluster(), pytest.raises(JobExecutionError, match="'j' is missing"):
        rows_of(tables, "SELECT * FROM t")


def test_an_option_that_a_format_does_not_know_is_refused(
    tables: TableEnvironment, tmp_path: Path
) -> None:
    lines_of(tables, tmp_path / "t", "i INT", [], **{"json.ignore-parse-error": "true"})
    with pytest.raises(ConfigurationError, match="did you mean 'ignore-parse-errors'"):
        tables.execute_sql("SELECT * FROM t")


def test_files_of_changes_are_a_changing_table(tables: TableEnvironment, tmp_path: Path) -> None:
    lines = [
        '{"before": null, "after": {"k": 1, "n": 5}, "op": "c"}',
        '{"before": null, "after": {"k": 2, "n": 1}, "op": "c"}',
        '{"before": {"k": 1, "n": 5}, "after": {"k": 1, "n": 7}, "op": "u"}',
        '{"before": {"k": 2, "n": 1}, "after": null, "op": "d"}',
    ]
    lines_of(tables, tmp_path / "t", "k INT, n INT", lines, format="debezium-json")
    with MiniCluster():
        with tables.execute_sql("SELECT n FROM t").collect() as rows:
            kinds = [(str(row.get_row_kind()), row[0]) for row in rows]
        assert kinds == [("+I", 5), ("+I", 1), ("-U", 5), ("+U", 7), ("-D", 1)]


def test_rows_know_the_file_they_are_from(tables: TableEnvironment, tmp_path: Path) -> None:
    columns = "i INT, f STRING METADATA FROM 'file.name', `file.path` STRING METADATA VIRTUAL, z BIGINT METADATA FROM 'file.size'"
    lines_of(tables, tmp_path / "t", columns, ['{"i": 1}'])
    path = str(tmp_path / "t" / "rows")
    with MiniCluster():
        assert rows_of(tables, "SELECT * FROM t") == {("1", "rows", path, "9"): 1}
        assert rows_of(tables, "SELECT z FROM t") == {("9",): 1}


@pytest.fixture
def batch() -> TableEnvironment:
    return TableEnvironment.create(EnvironmentSettings.in_batch_mode())


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_overwriting_replaces_all_rows(batch: TableEnvironment, tmp_path: Path, form: str) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = '{form}'"
    batch.execute_sql(f"CREATE TABLE t (k INT, n INT) WITH ({given})")
    with MiniCluster():
        batch.execute_sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)").wait()
        batch.execute_sql("INSERT OVERWRITE t VALUES (4, 4), (5, 5)").wait()
        assert rows_of(batch, "SELECT * FROM t") == {("4", "4"): 1, ("5", "5"): 1}
        batch.execute_sql("INSERT OVERWRITE t SELECT k, k FROM t WHERE k = 4").wait()
        assert rows_of(batch, "SELECT * FROM t") == {("4", "4"): 1}


def test_overwriting_replaces_the_partitions_that_get_rows(
    batch: TableEnvironment, tmp_path: Path
) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'csv'"
    batch.execute_sql(f"CREATE TABLE t (n INT, k INT) PARTITIONED BY (k) WITH ({given})")
    with MiniCluster():
        batch.execute_sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)").wait()
        batch.execute_sql("INSERT OVERWRITE t VALUES (20, 2), (40, 4)").wait()
        assert rows_of(batch, "SELECT * FROM t") == dict.fromkeys(
            [("1", "1"), ("20", "2"), ("3", "3"), ("40", "4")], 1
        )
        batch.execute_sql("INSERT OVERWRITE t PARTITION (k = 3) SELECT 30").wait()
        assert rows_of(batch, "SELECT n FROM t WHERE k >= 3") == {("30",): 1, ("40",): 1}


def test_overwriting_fails_over(batch: TableEnvironment, tmp_path: Path) -> None:
    """A commit that is repeated deletes nothing of its own."""
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'csv'"
    batch.execute_sql(f"CREATE TABLE t (n INT) WITH ({given})")
    batch.get_config().set("restart-strategy.type", "fixed-delay")
    batch.get_config().set("restart-strategy.fixed-delay.delay", "0 ms")
    with MiniCluster():
        batch.execute_sql("INSERT INTO t VALUES (1), (2)").wait()
        with protocol_faults(StepFault("after commit_sink")) as faults:
            batch.execute_sql("INSERT OVERWRITE t VALUES (3)").wait()
        assert faults.struck
        assert rows_of(batch, "SELECT * FROM t") == {("3",): 1}


def test_unsupported_insert_overwrite_is_rejected(tables: TableEnvironment, tmp_path: Path) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'csv'"
    tables.execute_sql(f"CREATE TABLE t (n INT) WITH ({given})")
    tables.execute_sql("CREATE TABLE p (n INT) WITH ('connector' = 'print')")
    with pytest.raises(UnsupportedOperationError, match="streaming queries cannot overwrite"):
        tables.execute_sql("INSERT OVERWRITE t VALUES (1)")
    with pytest.raises(ValidationError, match="cannot be overwritten"):
        tables.execute_sql("INSERT OVERWRITE p VALUES (1)")


def test_files_are_chosen_by_their_paths(tables: TableEnvironment, tmp_path: Path) -> None:
    options = {"source.path.regex-pattern": ".*/new-[0-9]+"}
    lines_of(tables, tmp_path / "t", "i INT", ['{"i": 1}'], **options)
    (tmp_path / "t" / "new-7").write_text('{"i": 2}\n')
    with MiniCluster():
        assert rows_of(tables, "SELECT i FROM t") == {("2",): 1}
