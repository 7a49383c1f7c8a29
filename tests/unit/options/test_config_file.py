"""penstock.yaml: what is in it counts unless the program or the command line says otherwise, and mistakes are named."""

from __future__ import annotations

import os

import pytest

from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import ConfigurationError
from penstock.options.config_file import find_config_file, load_config_file, parse_config


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A working directory and a home without files."""
    monkeypatch.delenv("PENSTOCK_CONFIG", raising=False)
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def test_keys_are_written_whole_or_in_parts():
    text = """
    parallelism.default: 4
    execution:
      checkpointing:
        interval: 10 s
        unaligned.enabled: true
    pipeline.global-job-parameters: {tenant: x}
    spark:
      executor.memory: 2g
    """
    assert parse_config(text).to_dict() == {
        "parallelism.default": "4",
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.unaligned.enabled": "true",
        "pipeline.global-job-parameters.tenant": "x",
        "spark.executor.memory": "2g",
    }
    assert parse_config("").to_dict() == {}


def test_values_are_taken_as_they_are_written():
    assert parse_config("pipeline.name: 10:30").to_dict() == {"pipeline.name": "10:30"}
    assert parse_config("pipeline.name: on").to_dict() == {"pipeline.name": "on"}


def test_an_older_name_means_the_option_of_today():
    assert parse_config("state.backend: rocksdb").to_dict() == {"state.backend.type": "rocksdb"}


WRONG = {
    "unknown": (
        "rest.nothing: 1\nparalelism.default: 3",
        "unknown option 'rest.nothing'",
        "line 1",
        "",
    ),
    "nearly right": (
        "# x\nparalelism.default: 3",
        "unknown option 'paralelism.default'",
        "line 2",
        "parallelism.default",
    ),
    "nearly right below a key without effect": (
        "metrics.latency.intervall: 3",
        "unknown option 'metrics.latency.intervall'",
        "line 1",
        "metrics.latency.interval",
    ),
    "twice": (
        "parallelism.default: 1\n\nparallelism: {default: 2}",
        "set twice",
        "lines 1 and 3",
        "",
    ),
    "twice, under an older name": (
        "state.backend: rocksdb\nstate.backend.type: hashmap",
        "set twice",
        "lines 1 and 2",
        "",
    ),
    "no value": ("pipeline.name: x\nparallelism.default:", "has no value", "line 2", "colon"),
    "no such value": ("parallelism.default: many", "cannot be 'many'", "line 1", "integer"),
    "too small": ("parallelism.default: 0", "cannot be '0'", "line 1", "at least 1"),
    "no options": ("- a\n- b", "not a mapping of options", "line 1", "key: value"),
    "no YAML": ("a: [1\nb: 2", "is not valid YAML", "line 2", ""),
}


@pytest.mark.parametrize(("text", "message", "detail", "hint"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_reported_with_its_line(text, message, detail, hint):
    with pytest.raises(ConfigurationError) as caught:
        parse_config(text, "my.yaml")
    assert message in caught.value.message
    assert detail in caught.value.detail
    assert "my.yaml" in caught.value.detail
    assert hint in (caught.value.hint or "")


def test_the_first_file_that_is_there_counts(place, monkeypatch):
    assert find_config_file() is None
    assert load_config_file()[0].to_dict() == {}
    for order, path in enumerate((place / "home/penstock.yaml", place / "work/penstock.yaml")):
        path.write_text(f"parallelism.default: {order + 1}")
        assert load_config_file()[0].to_dict() == {"parallelism.default": str(order + 1)}
    (place / "named.yaml").write_text("parallelism.default: 3")
    monkeypatch.setenv("PENSTOCK_CONFIG", str(place / "named.yaml"))
    assert load_config_file()[0].to_dict() == {"parallelism.default": "3"}
    (place / "given.yaml").write_text("parallelism.default: 4")
    options, found = load_config_file(place / "given.yaml")
    assert (options.to_dict(), found) == ({"parallelism.default": "4"}, place / "given.yaml")


def test_a_file_that_was_named_and_is_not_there_is_an_error(place, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CONFIG", str(place / "gone.yaml"))
    with pytest.raises(ConfigurationError, match=r"gone\.yaml"):
        StreamExecutionEnvironment.get_execution_environment()


def test_a_program_starts_with_the_file_and_may_say_otherwise(place):
    path = place / "work/penstock.yaml"
    path.write_text("parallelism.default: 7\npipeline.name: of the file")
    env = StreamExecutionEnvironment.get_execution_environment()
    assert env.get_parallelism() == 7
    env.set_parallelism(2)
    assert env.get_parallelism() == 2
    path.write_text("parallelism.default: 9")
    os.utime(path, (1, 1))
    assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == 9
