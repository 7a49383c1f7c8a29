"""CSV of tables: arrays and rows with their own delimiter, the same in files and messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.common import Row
from penstock.errors import ConfigurationError
from penstock.sql.connector.formats import message_format
from penstock.sql.parse.types import data_type_of
from penstock.table import EnvironmentSettings, TableEnvironment
from tests.builders.cases import check_all

COLUMNS = {
    "r": data_type_of("ROW<a INT, b STRING>"),
    "x": data_type_of("ARRAY<STRING>"),
    "n": data_type_of("INT"),
}
#: Options, and how Row(Row(1, "u"), ["p", "q"], 3) is written
OPTIONS: dict[str, tuple[dict[str, str], bytes]] = {
    "plain": ({}, b"1;u,p;q,3"),
    "another delimiter": ({"csv.array-element-delimiter": "|"}, b"1|u,p|q,3"),
    "tabulators": ({"csv.field-delimiter": "\\t"}, b"1;u\tp;q\t3"),
}


def test_messages_have_the_delimiter_of_the_option() -> None:
    def check(case: tuple[dict[str, str], bytes]) -> None:
        options, written = case
        form = message_format("csv", options, ["csv."], COLUMNS, "t")
        row = Row(Row(1, "u"), ["p", "q"], 3)
        assert form.writer().serialize(row).rstrip() == written
        assert list(form.reader().deserialize(written)) == [Row(a=1, b="u"), ["p", "q"], 3]

    check_all(OPTIONS, check)


def test_quotes_of_messages_are_those_of_the_option() -> None:
    texts = {"s": data_type_of("STRING")}
    form = message_format("csv", {"csv.quote-character": "'"}, ["csv."], texts, "t")
    assert form.writer().serialize(Row("a,b")).rstrip() == b"'a,b'"
    assert list(form.reader().deserialize(b"'a,b'")) == ["a,b"]


@pytest.mark.parametrize("kind", ["ROW<a ARRAY<INT>>", "ARRAY<ROW<a INT>>", "ARRAY<ARRAY<INT>>"])
def test_parts_of_parts_are_refused(kind: str, tmp_path: Path) -> None:
    form = message_format("csv", {}, ["csv."], {"v": data_type_of(kind)}, "t")
    with pytest.raises(ConfigurationError, match="of column 'v'"):
        form.writer()
    env = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    env.execute_sql(
        f"CREATE TABLE t (v {kind}) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    with pytest.raises(ConfigurationError, match="of column 'v'"):
        env.explain_sql(f"INSERT INTO t SELECT CAST(NULL AS {kind})")
    with pytest.raises(ConfigurationError, match="of column 'v'"):
        env.explain_sql("SELECT * FROM t")
