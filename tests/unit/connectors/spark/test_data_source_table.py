"""Tables of PySpark data sources."""

from __future__ import annotations

import pytest

from penstock.connectors.spark.data_source_table import DataSourceFactory
from penstock.errors import ConfigurationError, InvalidProgramError
from penstock.sql.connector.registry import CONNECTORS
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster
from tests.unit.connectors.spark import test_data_source
from tests.unit.connectors.spark.test_data_source import files_in, write_lines

MODULE = test_data_source.__name__


@pytest.fixture
def env():
    return TableEnvironment.create(EnvironmentSettings.in_streaming_mode())


def create(env, name, directory, columns="line STRING", kind="Lines", **options):
    with_options = {"class": f"{MODULE}.{kind}", "option.path": str(directory), **options}
    texts = ", ".join(f"'{key}' = '{value}'" for key, value in with_options.items())
    env.execute_sql(
        f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'spark-data-source', {texts})"
    )


def test_the_connector_is_found_by_its_name():
    assert isinstance(CONNECTORS.find("spark-data-source"), DataSourceFactory)


def test_rows_are_read_and_written_in_columns(env, tmp_path):
    (tmp_path / "in").mkdir()
    write_lines(tmp_path / "in", ["a", "b"], ["c"])
    create(env, "lines", tmp_path / "in")
    create(env, "copies", tmp_path / "out", "`value` STRING")
    with MiniCluster():
        env.execute_sql("INSERT INTO copies SELECT UPPER(line) FROM lines").wait()
    found = [line for path in files_in(tmp_path / "out") for line in path.read_text().split()]
    assert sorted(found) == ["A", "B", "C"]


def test_a_stream_is_read_from_offset_to_offset(env, tmp_path):
    write_lines(tmp_path, ["a"], ["b"], ["c"])
    create(env, "lines", tmp_path, **{"scan.unbounded": "true"})
    with MiniCluster(), env.execute_sql("SELECT line FROM lines").collect() as rows:
        assert [next(rows)[0] for _ in range(3)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("Missing", "cannot load the class"),
        ("Nothing", "does not implement it"),
        ("files_in", "subclass of pyspark"),
    ],
)
def test_a_class_that_cannot_be_read_is_refused_when_the_query_is_planned(
    env, tmp_path, kind, message
):
    create(env, "lines", tmp_path, kind=kind)
    with pytest.raises((ConfigurationError, InvalidProgramError, TypeError), match=message):
        env.explain_sql("SELECT * FROM lines")


def test_unknown_options_are_refused(env, tmp_path):
    create(env, "lines", tmp_path, path="/")
    with pytest.raises(ConfigurationError, match="unknown option 'path'"):
        env.explain_sql("SELECT * FROM lines")
