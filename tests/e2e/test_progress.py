"""What a program says about its job on standard error, with and without a terminal."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.builders.terminal import TIMEOUT_S, Terminal

PROGRAM = """
from penstock.client.local_cluster import LocalCluster
from penstock.datastream import StreamExecutionEnvironment

def run():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.from_collection([1, 2, 3, 4]).filter(lambda n: n > 1).print()
    env.execute("numbers")
    print("the end")
"""
RUN = [sys.executable, "-m", "penstock", "run", "--no-spark"]
START = r"job 'numbers' \([0-9a-f]{32}\) starts in this process in epoch mode \(the default without Spark\), parallelism 1"
END = (
    r"job 'numbers' finished after \d+\.\d s: 4 records in( \([\d,]+/s\))?, 3 out, 1 checkpoint, "
    r"0 restarts, 0 late records dropped"
)
CHECKPOINT = (
    r"job 'numbers': checkpoint 1 completed in \d+ ms, 4 records in, watermark end, state 0 KiB"
)


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.py"
    path.write_text(PROGRAM + "\nrun()\n")
    return path


def piped(*command):
    ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert ran.stdout.splitlines() == ["2", "3", "4", "the end"]
    # The page is served by a thread, and announced if that is before the end.
    return [line for line in ran.stderr.splitlines() if "is on the page http" not in line]


def matches(lines, *patterns):
    assert len(lines) == len(patterns), lines
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line), line


@pytest.mark.ci
def test_without_a_terminal_there_is_a_line_at_the_start_and_one_at_the_end(program) -> None:
    matches(piped(*RUN, program), START, END)


def test_options_add_a_line_for_each_checkpoint_and_take_all_lines_away(program) -> None:
    lines = piped(*RUN, "-D", "penstock.progress.checkpoints=true", program)
    matches(lines, START, CHECKPOINT, END)
    assert piped(*RUN, "-D", "penstock.progress=never", program) == []


def test_python_says_the_same_as_penstock_run(program) -> None:
    program.write_text(PROGRAM + "\nwith LocalCluster():\n    run()\n")
    matches(piped(sys.executable, program), START, END)


def test_in_a_terminal_a_table_ends_with_the_same_line(program) -> None:
    with Terminal([*RUN, str(program)]) as terminal:
        assert terminal.end() == 0
    assert "in this process, epoch mode (the default without Spark), parallelism 1" in terminal.text
    last = terminal.text.splitlines()[-2:]
    matches([last[0][last[0].index("job '") :], last[1]], END, "the end")


def test_lines_are_an_option_in_a_terminal(program) -> None:
    with Terminal([*RUN, "-D", "penstock.progress=lines", str(program)]) as terminal:
        assert terminal.end() == 0
    lines = [line for line in terminal.text.splitlines() if "is on the page http" not in line]
    matches(lines, START, "2", "3", "4", END, "the end")
