"""Random queries give what Flink SQL gave: recorded by tools/record_flink_sql.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Configuration, RowKind
from penstock.table import DataTypes, EnvironmentSettings, TableEnvironment
from penstock.table.udf import udf, udtf
from penstock.testing import MiniCluster
from tests.builders.cases import check_all, part
from tests.sql.more_tables import write_more_tables
from tests.sql.random_queries import FinalTable, write_tables

ADDS = (RowKind.INSERT, RowKind.UPDATE_AFTER)
#: The queries run in so many tests, so that workers can share them.
PARTS = 8
# Flink leaves out the rows that take others away, although the columns that would tell which are not selected.
_PLACES = "SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC, id) AS place FROM orders"
NOT_COMPARED = {f"SELECT id, ts, place FROM ({_PLACES}) WHERE place <= 1"}


@cache
def answered() -> dict[str, dict[str, Any]]:
    """The queries that Flink answered, by number and kind."""
    recorded = json.loads((Path(__file__).parent / "recorded.json").read_text(encoding="utf-8"))
    compared = (each for each in recorded if "rows" in each and each["query"] not in NOT_COMPARED)
    return {f"{number}-{each['kind']}": each for number, each in enumerate(compared)}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TableEnvironment]:
    configuration = Configuration()
    configuration.set_string("parallelism.default", "2")
    configuration.set_string("table.local-time-zone", "UTC")
    settings = EnvironmentSettings.new_instance().in_streaming_mode()
    environment = TableEnvironment.create(settings.with_configuration(configuration).build())
    home = tmp_path_factory.mktemp("tables")
    for statement in [*write_tables(home), *write_more_tables(home)]:
        environment.execute_sql(statement)
    letters = udtf(lambda text: list(text or ""), result_types=[DataTypes.STRING()])
    twice = udf(lambda n: None if n is None else 2 * n, result_type=DataTypes.INT())
    environment.create_temporary_system_function("letters", letters)
    environment.create_temporary_system_function("twice", twice)
    with MiniCluster():
        yield environment


@pytest.mark.parametrize("number", range(PARTS))
def test_queries_match_recorded_flink_results(tables: TableEnvironment, number: int) -> None:
    def check(recorded: dict[str, Any]) -> None:
        final = FinalTable()
        with tables.execute_sql(recorded["query"]).collect() as rows:
            for row in rows:
                final.add(row, comes=row.get_row_kind() in ADDS)
        assert final.rows() == recorded["rows"], recorded["query"]

    check_all(part(answered(), number, PARTS), check)


def test_there_are_enough_of_them() -> None:
    assert len(answered()) >= 700
