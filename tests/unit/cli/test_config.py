"""`penstock config`: command line before program before file before default, each value with its origin."""

from __future__ import annotations

import json

import pytest

from penstock.cli import main

PROGRAM = """
from pyflink.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(3)
env.disable_operator_chaining()
env.get_configuration().set_string("pipeline.name", "of the program")
env.get_configuration().set_string("state.backend", "hashmap")
env.from_collection([1]).print()
print("never in the output")
env.execute()
"""


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_MASTER", raising=False)
    path = tmp_path / "penstock.yaml"
    path.write_text(
        "parallelism.default: 2\ntaskmanager.numberOfTaskSlots: 6\ns3.secret-key: abc\n"
    )
    monkeypatch.setenv("PENSTOCK_CONFIG", str(path))
    return path


def settings(capsys, *arguments):
    assert main(["config", "--json", *arguments]) == 0
    return {
        each["key"]: (each["value"], each["origin"]) for each in json.loads(capsys.readouterr().out)
    }


def test_each_value_has_its_origin(write, capsys, file):
    given = ["-D", "pipeline.name=of the command line", "-D", "state.backend=rocksdb"]
    found = settings(capsys, *given, "--all", write(PROGRAM))
    assert found["pipeline.name"] == ("of the command line", "command line")
    assert found["state.backend.type"] == ("rocksdb", "command line")
    assert "state.backend" not in found
    assert found["parallelism.default"] == ("3", "program")
    assert found["pipeline.operator-chaining.enabled"] == ("false", "program")
    assert found["taskmanager.numberOfTaskSlots"] == ("6", str(file))
    assert found["execution.checkpointing.timeout"] == ("10 min", "default")
    assert found["execution.checkpointing.dir"] == (None, "default")
    assert found["s3.secret-key"] == ("******", str(file))


def test_without_a_program_the_file_and_the_command_line_are_shown(capsys, file, monkeypatch):
    monkeypatch.setenv("SPARK_MASTER", "local[3]")
    found = settings(capsys, "-p", "9")
    assert found == {
        "parallelism.default": ("9", "command line"),
        "taskmanager.numberOfTaskSlots": ("6", str(file)),
        "s3.secret-key": ("******", str(file)),
        "spark.master": ("local[3]", "environment variable SPARK_MASTER"),
    }


def test_one_option_is_shown_with_what_it_is_for(capsys, file):
    assert main(["config", "-k", "state.backend"]) == 0
    shown = capsys.readouterr().out
    assert "state.backend.type: hashmap" in shown
    assert "older name: state.backend" in shown
    assert "RocksDB" in shown
    assert main(["config", "-k", "state.backnd"]) == 2
    assert "did you mean state.backend" in capsys.readouterr().err


def test_what_the_command_line_says_counts_in_the_job(write, capsys):
    program = PROGRAM.replace("env.execute()", "print(env.get_parallelism()); env.execute()")
    assert main(["plan", "-p", "5", write(program)]) == 0
    output = capsys.readouterr()
    assert output.err == "never in the output\n5\n"
    assert "x5" in output.out
    assert main(["plan", write(program)]) == 0
    assert "x3" in capsys.readouterr().out


def test_an_unknown_option_is_refused_with_the_nearest(write, capsys, file):
    assert main(["config", "-D", "paralelism.default=3"]) == 2
    assert "did you mean parallelism.default" in capsys.readouterr().err
    file.write_text("execution:\n  checkpointing:\n    intervall: 3 s\n")
    assert main(["run", "--no-spark", write(PROGRAM)]) == 2
    error = capsys.readouterr().err
    assert "unknown option 'execution.checkpointing.intervall'" in error
    assert f"{file}, line 3" in error
    assert "did you mean execution.checkpointing.interval" in error
