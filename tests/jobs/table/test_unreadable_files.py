"""Error messages for unreadable files of a table: position, value, and an option of the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from penstock.errors import JobExecutionError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster
from tests.builders.cases import check_all
from tests.builders.tables import rows


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with MiniCluster():
        yield


class Unreadable(NamedTuple):
    """A file of a format, the lines that the message begins with, and its hint."""

    kind: str
    content: bytes
    expected: tuple[str, ...]
    hint: str | None


def parquet(**columns: list[object]) -> bytes:
    import io

    out = io.BytesIO()
    pl.DataFrame(columns).write_parquet(out)
    return out.getvalue()


TAKE_AWAY = "fix the table's 'format' or 'path', or remove the file"
CASES = {
    "CSV": Unreadable(
        "csv",
        b"1,a\n2x,b\n",
        (
            "malformed record in a file: invalid CSV record: column 'a': cannot read '2x' as INT",
            "detail: {path}, at byte 4: b'2x,b'",
        ),
        "set 'csv.ignore-parse-errors' = 'true' to read such values as NULL and skip unreadable rows",
    ),
    "CSV that is not UTF-8": Unreadable(
        "csv",
        b"1,a\n2,\xff\n",
        ("malformed record in a file: invalid CSV record: 'utf-8'",),
        "set 'csv.ignore-parse-errors' = 'true' to read such values as NULL and skip unreadable rows",
    ),
    "JSON": Unreadable(
        "json",
        b'{"a": 1}\n{"a": "q"}\n',
        (
            "malformed record in a file: invalid JSON record: field 'a': cannot read 'q' as INT",
            'detail: {path}, at byte 9: b\'{{"a": "q"}}\'',
        ),
        "set 'json.ignore-parse-errors' = 'true' to read such values as NULL and skip unreadable rows",
    ),
    "change events": Unreadable(
        "debezium-json",
        b"nonsense\n",
        (
            "table `default_catalog`.`default_database`.`t`: malformed record in a file: a message is not a Debezium change event:",
            "detail: at file {path}, offset 0: b'nonsense'",
        ),
        "set 'debezium-json.ignore-parse-errors' = 'true' to read such values as NULL and skip unreadable rows",
    ),
    "Parquet": Unreadable(
        "parquet",
        b"junk",
        ("cannot read file as Parquet: ", "detail: file: {path}"),
        TAKE_AWAY,
    ),
    "ORC": Unreadable(
        "orc", b"junk", ("cannot read file as ORC: ", "detail: file: {path}"), TAKE_AWAY
    ),
    "Avro": Unreadable(
        "avro", b"junk", ("cannot read file as Avro: ", "detail: file: {path}"), TAKE_AWAY
    ),
    "a column of another type": Unreadable(
        "parquet",
        parquet(a=["1", "x"], b=["u", "v"]),
        (
            "cannot read column 'a' of file as INT",
            "detail: {path}: its type in the file is String, with values such as 'x'",
        ),
        "declare the column with its type in the file",
    ),
    "a column that is not there": Unreadable(
        "parquet",
        parquet(a=[1]),
        ("file has no column 'b'", "detail: {path}: it has a"),
        None,
    ),
}


def test_unreadable_file_error_uses_sql_terms(tmp_path: Path) -> None:
    def check(case: Unreadable) -> None:
        directory = tmp_path / str(len(list(tmp_path.iterdir())))
        directory.mkdir()
        path = directory / "file"
        path.write_bytes(case.content)
        env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        env.execute_sql(
            f"CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'filesystem', 'path' = '{directory}', 'format' = '{case.kind}')"
        )
        with pytest.raises(JobExecutionError) as caught:
            rows(env.sql_query("SELECT * FROM t"))
        reported = str(caught.value)
        for line, expected in zip(reported.splitlines(), case.expected, strict=False):
            assert line.startswith(expected.format(path=path)), reported
        hints = [line for line in reported.splitlines() if line.startswith("hint: ")]
        assert hints == ([] if case.hint is None else [f"hint: {case.hint}"]), reported
        assert "in operator 'Source: t[" in reported
        for word in ("on_error", "ignore_parse_errors", "Traceback", "polars"):
            assert word not in reported, reported

    check_all(CASES, check)
