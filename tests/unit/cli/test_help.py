"""Help and completion: every command has examples that it accepts, and `--json`; what may stand at the cursor is found."""

from __future__ import annotations

import json
import shlex

import pytest

from penstock.cli import main
from penstock.cli.completion import candidates
from penstock.cli.examples import EXAMPLES, leaves
from penstock.cli.main import create_parser

COMMANDS = dict(leaves(create_parser()))
NO_JSON = {"completion", "kubernetes render"}  # a script, manifests


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_an_example_of_it(name):
    assert f"\n  penstock {name}" in COMMANDS[name].format_help() or name in EXAMPLES


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - NO_JSON))
def test_every_command_prints_json_if_asked(name):
    assert "--json" in COMMANDS[name].format_help()


@pytest.mark.parametrize(
    "example",
    [
        line
        for name, lines in EXAMPLES.items()
        for line in lines
        if name in COMMANDS and line.startswith("penstock")
    ],
)
def test_the_command_line_takes_its_examples(example):
    words = shlex.split(example.partition(" > ")[0], comments=True)
    assert callable(create_parser().parse_args(words[1:]).call)


def found(*words):
    return [candidate for candidate, _ in candidates(create_parser(), words)]


def test_what_may_stand_at_the_cursor_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    assert found("resc") == ["rescale"]
    assert {"run", "plan", "config"} <= set(found(""))
    assert found("state", "d") == ["diff"]
    assert found("plan", "--form") == ["--format"]
    assert found("plan", "-f", "") == ["tree", "json", "svg"]
    assert found("run", "-D", "parallelism.") == ["parallelism.default="]
    assert found("config", "-k", "parallelism.") == ["parallelism.default"]
    assert found("run", "") == [":files"]
    assert found("run", "job.py", "x") == [":files"]
    assert found("job", "cl") == []
    assert found("version", "") == []
    assert found("nonsense", "x") == []


PROGRAM = """
from pyflink.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
for name in ("first", "second"):
    env.from_collection([1, 2]).map(lambda n: n + 1).print()
    env.execute(name)
print("the end")
raise SystemExit(3)
"""


def test_a_run_tells_its_jobs_as_json(write, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    assert main(["run", "--no-spark", "-p", "1", "--json", write(PROGRAM)]) == 3
    output = capsys.readouterr()
    reported = json.loads(output.out)
    assert reported["exit-code"] == 3
    assert [(job["name"], job["state"]) for job in reported["jobs"]] == [
        ("first", "FINISHED"),
        ("second", "FINISHED"),
    ]
    assert output.err.endswith("the end\n")


def test_versions_are_printed(capsys):
    assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith("penstock ")
    assert main(["version", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"penstock", "pyspark", "python"}
    assert main(["info", "--json"]) == 0
    assert "java" in json.loads(capsys.readouterr().out)
