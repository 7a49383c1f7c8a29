"""A replay comes to the failure that the job came to, and the debugger stops at it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.cli import main
from penstock.replay import Breakpoint, ReplayRequest, debug, replay
from tests.jobs.replay import failing_jobs
from tests.jobs.replay.recorded_runs import record_run

OFTEN = {"execution.checkpointing.interval": "8 ms", "pipeline.auto-watermark-interval": "1 ms"}
BAD_RECORD = ("0-2", 137, 2720)


@pytest.fixture(autouse=True)
def _strict():
    failing_jobs.ALLOWED.clear()


def record_failure(name, directory, **options):
    run = record_run(getattr(failing_jobs, name), directory, options={**OFTEN, **options}, seed=3)
    assert run.error is not None
    return run


WITH_RECORD = [
    "in_a_map",
    "in_a_lambda",
    "in_a_generator",
    "in_a_keyed_process",
    "in_a_key_selector",
    "in_an_async_call",
]


@pytest.mark.parametrize("retained", ["1", "50"])
@pytest.mark.parametrize("name", WITH_RECORD)
def test_a_replay_finds_the_record_that_failed(name, retained, tmp_path):
    run = record_failure(name, tmp_path, **{"execution.checkpointing.num-retained": retained})
    result = replay(run.directory)
    failure = result.failure
    assert failure is not None
    assert failure.record_known
    assert failure.record == BAD_RECORD
    assert type(failure.error).__name__ == "UnpaidError"
    assert "no account pays 137" in str(failure)
    # The job's own message and the replay's name the same operator, subtask and record.
    assert failure.message in str(run.error)
    assert result.checkpoint_id == run.epochs[-1] + 1
    assert result.recorded_failure is not None
    assert failure.message in result.recorded_failure
    assert result.approximations == ()


def test_a_failure_in_a_timer_is_found(tmp_path):
    failure = replay(record_failure("in_a_timer", tmp_path).directory).failure
    assert failure is not None
    assert not failure.record_known
    assert "timer 137000 of key '0-2'" in failure.message


def test_sink_records_before_the_failure_are_in_the_result(tmp_path):
    run = record_failure("in_a_map", tmp_path)
    result = replay(run.directory)
    written = run.written(result.checkpoint_id)
    replayed, _ = run.replayed(result.checkpoint_id)
    assert replayed.get(0) == written.get(0)


def test_a_failed_attempt_stays_when_the_next_one_succeeds(tmp_path, monkeypatch):
    monkeypatch.setattr(
        failing_jobs.UnpaidError,
        "__init__",
        lambda self, text: (failing_jobs.ALLOWED.add("pass"), Exception.__init__(self, text))[1],
    )
    restarts = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "0 ms",
    }
    run = record_run(failing_jobs.in_a_map, tmp_path, options={**OFTEN, **restarts})
    assert run.error is None
    assert run.master.restarts == 1
    failing_jobs.ALLOWED.clear()
    failed = replay(run.directory)
    assert failed.failure is not None
    assert failed.failure.record == BAD_RECORD
    assert failed.attempt == 0
    failing_jobs.ALLOWED.add("pass")
    again, result = run.replayed(failed.checkpoint_id, attempt="last", verify=True)
    assert (result.failure, result.attempt) == (None, 1)
    assert again == run.written(failed.checkpoint_id)
    assert {record[2] for record in result.records("tape")} == {1}
    assert result.state is not None
    assert result.state.differing == []


@pytest.mark.parametrize("name", ["in_a_map", "in_an_async_call"])
def test_a_program_that_was_fixed_does_not_fail(name, tmp_path):
    run = record_failure(name, tmp_path)
    failing_jobs.ALLOWED.add("pass")
    result = replay(run.directory)
    assert result.failure is None
    assert "no account pays 137" in str(result.recorded_failure)


def scripted(monkeypatch, *commands):
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{each}\n" for each in commands)))


@pytest.mark.parametrize(
    ("name", "function", "shows"),
    [
        pytest.param("in_a_map", "map", "value", id="method"),
        pytest.param("in_a_lambda", "<lambda>", "value", id="lambda"),
        pytest.param("in_a_generator", "each", "value", id="generator"),
        pytest.param("in_a_keyed_process", "process_element", "value", id="keyed process"),
        pytest.param("in_a_key_selector", "<lambda>", "value", id="key selector"),
        pytest.param("in_an_async_call", "async_invoke", "value", id="async call"),
    ],
)
def test_the_debugger_stops_at_the_first_line_for_the_record_that_failed(
    name, function, shows, tmp_path, monkeypatch, capsys
):
    run = record_failure(name, tmp_path)
    scripted(monkeypatch, "where", f"p 'found', {shows}", "continue")
    result = debug(ReplayRequest(run.directory))
    shown = capsys.readouterr().out
    assert f"('found', {BAD_RECORD!r})" in shown
    assert f"{function}(" in shown
    assert result.failure is not None
    assert result.failure.record == BAD_RECORD
    plain = replay(run.directory)
    assert (result.sinks, result.counts) == (plain.sinks, plain.counts)


def test_one_can_step_from_the_first_line_to_the_failure(tmp_path, monkeypatch, capsys):
    run = record_failure("in_a_keyed_process", tmp_path)
    scripted(
        monkeypatch,
        "p 'before', self.sum.value()",
        "step",
        "step",
        "next",
        "p 'amount', amount",
        "q",
    )
    result = debug(ReplayRequest(run.directory))
    shown = capsys.readouterr().out
    expected = sum(number for number in range(137) if number % 3 == 2)
    assert f"('before', {expected})" in shown
    assert "('amount', 137)" in shown
    assert (result.failure, result.stopped) == (None, True)  # to quit is not a failure


def test_the_debugger_stops_in_a_timer(tmp_path, monkeypatch, capsys):
    run = record_failure("in_a_timer", tmp_path)
    scripted(monkeypatch, "p 'at', timestamp", "c")
    debug(ReplayRequest(run.directory))
    assert "('at', 137000)" in capsys.readouterr().out


def test_debugger_shows_the_failure_without_a_line_to_stop_at(tmp_path, monkeypatch, capsys):
    run = record_failure("in_a_builtin", tmp_path)
    scripted(monkeypatch, "p 'here'", "q")
    result = debug(ReplayRequest(run.directory))
    shown = capsys.readouterr().out
    assert "record 'x'" in shown
    assert "this is where it failed" in shown
    assert "'here'" in shown
    assert result.failure is not None


def test_the_debugger_stops_behind_a_partial(tmp_path, monkeypatch, capsys):
    run = record_failure("in_a_partial", tmp_path)
    scripted(monkeypatch, "p 'parse', value, base", "c")
    debug(ReplayRequest(run.directory))
    assert "('parse', 'x', 10)" in capsys.readouterr().out


def test_the_next_call_follows_the_end_of_a_function(tmp_path, monkeypatch, capsys):
    run = record_failure("in_a_map", tmp_path)
    scripted(monkeypatch, "p 'one', value[1]", "return", "next", "next", "p 'two', value[1]", "q")
    debug(
        ReplayRequest(run.directory, checkpoint_id=1, vertex="Map", subtask=0), Breakpoint(record=3)
    )
    shown = capsys.readouterr().out
    assert "('one', 2)" in shown
    assert "('two', 3)" in shown


@pytest.mark.parametrize(
    ("vertex", "subtask", "stop", "expected"),
    [
        pytest.param("Map", 1, Breakpoint(record=4), ("1-0", 3), id="record of a source"),
        pytest.param("1", 0, Breakpoint(key="0-1"), ("0-1", 1), id="first of a key"),
        pytest.param("1", 0, Breakpoint(record=1), ("0-0", 0), id="record after an exchange"),
    ],
)
def test_the_debugger_stops_at_a_record_that_is_asked_for(
    vertex, subtask, stop, expected, tmp_path, monkeypatch, capsys
):
    name = "in_a_map" if vertex == "Map" else "in_a_keyed_process"
    run = record_run(getattr(failing_jobs, name), tmp_path, options=OFTEN)
    scripted(monkeypatch, "p 'asked', value[:2]", "c")
    owner = subtask
    if stop.key is not None or vertex == "1":
        owner = 0 if failing_jobs.key_of(expected) in keys_of(run, 0) else 1
    debug(ReplayRequest(run.directory, checkpoint_id=1, vertex=vertex, subtask=owner), stop)
    assert f"('asked', {expected!r})" in capsys.readouterr().out


def keys_of(run, subtask):
    return {eval(value)[0] for value, _ in run.written(1).get(subtask, ())}


def test_missing_record_is_reported(tmp_path, monkeypatch, capsys):
    run = record_run(failing_jobs.in_a_map, tmp_path, options=OFTEN)
    scripted(monkeypatch)
    debug(ReplayRequest(run.directory, checkpoint_id=1, vertex=0), Breakpoint(record=100_000))
    assert "none of them matched" in capsys.readouterr().out


def test_the_command_shows_output_counts_and_the_failure(tmp_path, capsys):
    run = record_failure("in_a_map", tmp_path)
    assert main(["replay", run.directory, "--show-output"]) == 1
    shown = capsys.readouterr().out
    assert "sink 'tape' would have written" in shown
    assert "the interval failed:" in shown
    assert "UnpaidError: no account pays 137" in shown
    assert "record ('0-2', 137, 2720)" in shown
    assert main(["replay", run.directory, "--json", "--show-output"]) == 1
    reported = json.loads(capsys.readouterr().out)
    assert "UnpaidError: no account pays 137" in reported["failure"]
    assert reported["sinks"].keys() == reported["output"].keys() == {"tape"}
    assert main(["replay", f"{run.directory}/chk-1", "--verify"]) == 0
    shown = capsys.readouterr().out
    assert "checkpoint 1" in shown
    assert "the state equals the checkpoint" in shown


SCRIPT = """
from penstock.datastream import MapFunction
from helper_of_the_job import double

class Half(MapFunction):
    def map(self, value):
        number = double(value)
        return 100 // (number - 24)

def build(env):
    return env.from_collection(list(range(40))).map(Half())
"""


def test_a_debugging_session_in_a_process_of_its_own(tmp_path, monkeypatch):
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "job_to_debug.py").write_text(SCRIPT)
    (modules / "helper_of_the_job.py").write_text("def double(value):\n    return 2 * value\n")
    monkeypatch.syspath_prepend(str(modules))
    import job_to_debug

    run = record_run(job_to_debug.build, tmp_path / "checkpoints", parallelism=1)
    assert run.error is not None

    package, tests = Path(penstock.__file__).parents[1], Path(__file__).parents[3]

    def penstock_replay(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "penstock", "replay", run.directory, *arguments],
            input="p 'the value is', value\nnext\np 'the number is', number\nq\n",
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={"PYTHONPATH": os.pathsep.join(map(str, [package, tests]))},
        )

    ran = penstock_replay("--pdb", "--py-files", str(modules))
    assert "('the value is', 12)" in ran.stdout, ran.stderr
    assert "number = double(value)" in ran.stdout
    assert "('the number is', 24)" in ran.stdout
    assert ran.returncode == 0
    assert "nothing failed" not in ran.stdout
    assert ran.stderr == ""  # neither the failure again nor how the debugger was left
    missing = penstock_replay("--pdb")
    assert missing.returncode == 2
    assert "No module named 'job_to_debug'" in missing.stderr
    assert "--py-files" in missing.stderr
