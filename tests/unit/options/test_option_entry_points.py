"""Wherever an option is set, it is checked: its key, its value, and whether it is supported."""

from __future__ import annotations

import pytest

from penstock import options
from penstock.cli.run import RunOptions, configuration_of
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import ConfigurationError
from penstock.options import option_checks
from penstock.options.config_file import parse_config
from penstock.table import EnvironmentSettings, TableEnvironment
from tests.builders.cases import check_all

WRONG = {
    "unknown": ("taskmanager.memory.proces.size", "1 gb", "unknown option"),
    "unknown, of tables": ("table.exec.state.tll", "1 h", "unknown option"),
    "cannot be read": ("taskmanager.memory.process.size", "banana", "cannot be 'banana'"),
    "cannot be read, of tables": ("table.exec.mini-batch.size", "many", "cannot be 'many'"),
    "refused": ("security.ssl.internal.enabled", "true", "is not supported"),
    "refused, under an older name": ("state.backend.changelog.enabled", "true", "is not supported"),
}


def in_a_file(key, value):
    parse_config(f"{key}: {value}")


def on_the_command_line(key, value):
    configuration_of(RunOptions("job.py", options=(f"{key}={value}",)))


def in_an_environment(key, value):
    StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({key: value}))


def by_configure(key, value):
    StreamExecutionEnvironment.get_execution_environment().configure(
        Configuration.from_dict({key: value})
    )


def by_a_statement(key, value):
    TableEnvironment.create(EnvironmentSettings.in_streaming_mode()).execute_sql(
        f"SET '{key}' = '{value}'"
    )


def in_the_config_of_tables(key, value):
    TableEnvironment.create(EnvironmentSettings.in_streaming_mode()).get_config().set(key, value)


def in_the_settings_of_tables(key, value):
    configuration = Configuration.from_dict({key: value})
    EnvironmentSettings.new_instance().with_configuration(configuration)


def written_past_the_config_of_tables(key, value):
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.get_config().get_configuration().set_string(key, value)
    env.execute_sql("SELECT 1")


PLACES = {
    place.__name__: place
    for place in (
        in_a_file,
        on_the_command_line,
        in_an_environment,
        by_configure,
        by_a_statement,
        in_the_config_of_tables,
        in_the_settings_of_tables,
        written_past_the_config_of_tables,
    )
}


def test_what_is_wrong_is_refused_wherever_it_is_set():
    def check(case):
        place, (key, value, message) = case
        with pytest.raises(ConfigurationError, match=message) as caught:
            place(key, value)
        assert f"'{key}'" in caught.value.message

    check_all(
        {f"{name}: {what}": (place, wrong) for name, place in PLACES.items() for what, wrong in WRONG.items()},
        check,
    )  # fmt: skip


def test_a_key_of_the_program_and_one_without_meaning_are_taken_wherever_they_are_set():
    def check(case):
        place, key, value = case
        place(key, value)

    good = {"own": ("my.own.key", "1"), "no meaning": ("pekko.ask.timeout", "10 s")}
    places = {name: place for name, place in PLACES.items() if not name.startswith("written")}
    check_all(
        {f"{name}: {what}": (place, *each) for name, place in places.items() for what, each in good.items()},
        check,
    )  # fmt: skip


@pytest.fixture
def file_with_a_backend(tmp_path, monkeypatch):
    (tmp_path / "penstock.yaml").write_text("state.backend.type: hashmap\n")
    monkeypatch.setenv("PENSTOCK_CONFIG", str(tmp_path / "penstock.yaml"))


def streams_with(key, value):
    configuration = Configuration.from_dict({key: value})
    return StreamExecutionEnvironment.get_execution_environment(configuration).get_configuration()


def tables_with(key, value):
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.execute_sql("SET 'state.backend.type' = 'hashmap'")
    env.execute_sql(f"SET '{key}' = '{value}'")
    return env.get_config().effective()


@pytest.mark.usefixtures("file_with_a_backend")
@pytest.mark.parametrize("place", [streams_with, tables_with])
def test_an_option_under_its_older_name_goes_before_the_current_name_in_a_place_below(place):
    assert place("state.backend", "rocksdb").get(options.STATE_BACKEND) == "rocksdb"


@pytest.mark.usefixtures("file_with_a_backend")
def test_the_command_line_goes_before_older_names_in_the_program():
    pinned = Configuration.from_dict({"state.backend.type": "hashmap"})
    with StreamExecutionEnvironment.default_configuration(Configuration(), pinned):
        assert streams_with("state.backend", "rocksdb").to_dict() == pinned.to_dict()


def test_the_file_that_comes_with_flink_is_taken_with_a_line_for_what_has_no_effect(caplog):
    text = """
env:
  java:
    opts:
      all: --add-exports=java.base/sun.net.util=ALL-UNNAMED
jobmanager:
  bind-host: localhost
  rpc: {address: localhost, port: 6123}
  memory: {process: {size: 1600m}}
  execution: {failover-strategy: region}
taskmanager:
  bind-host: localhost
  host: localhost
  numberOfTaskSlots: 1
  memory: {process: {size: 1728m}}
parallelism: {default: 1}
rest: {address: localhost, bind-address: localhost}
"""
    option_checks._said.clear()
    with caplog.at_level("INFO", option_checks.__name__):
        assert len(parse_config(text).to_dict()) == 13
    lines = {record.getMessage().split("'")[1]: record.levelname for record in caplog.records}
    assert lines == {
        "env.java.opts.all": "WARNING",
        "jobmanager.memory.process.size": "WARNING",
        "taskmanager.numberOfTaskSlots": "INFO",
        "taskmanager.memory.process.size": "WARNING",
    }
