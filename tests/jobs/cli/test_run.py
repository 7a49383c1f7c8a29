"""Programs whose jobs the `penstock` command runs."""

from __future__ import annotations

import os
import sys

import penstock
from tests.builders.scripts import run

PROGRAM = """
import sys
from pyflink.common import Types
from pyflink.datastream import MapFunction, StreamExecutionEnvironment

class Double(MapFunction):
    def map(self, value):
        return value * 2

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([int(word) for word in sys.argv[1:]], Types.INT()).map(Double(), Types.INT()).print()
    env.execute()
"""


def test_a_pyflink_program_runs_with_its_arguments(write, capsys):
    assert run(write(PROGRAM), "1", "2", options=["-p", "1"]) == 0
    assert capsys.readouterr().out == "2\n4\n"


def test_a_failed_job_shows_the_users_traceback_first(write, capsys):
    script = write(PROGRAM.replace("value * 2", "value / 0"))
    assert run(script, "1") == 1
    start, end, error = capsys.readouterr().err.split("\n", 2)
    assert start.startswith("job 'Flink Streaming Job' (")
    assert end.startswith("job 'Flink Streaming Job' failed after ")
    assert error.startswith("Traceback (most recent call last):\n")
    assert "return value / 0" in error
    assert "ZeroDivisionError" in error
    assert "in operator 'Map'" in error
    assert os.path.dirname(penstock.__file__) not in error


def test_verbose_shows_all_frames_of_a_failed_job(write, capsys):
    script = write(PROGRAM.replace("value * 2", "value / 0"))
    assert run(script, "1", options=["--verbose"]) == 1
    error = capsys.readouterr().err
    assert "return value / 0" in error
    assert "epoch_slot.py" in error
    assert "JobExecutionError" in error


def test_modules_beside_the_program_import_pyflink_too(write, capsys):
    write(
        "from pyflink.common import Row\n\ndef make(value):\n    return Row(value)\n",
        "beside_it.py",
    )
    script = write(
        "from pyflink.datastream import StreamExecutionEnvironment\nimport beside_it\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1]).map(beside_it.make).print()\nenv.execute()\n"
    )
    assert run(script, options=["-p", "1"]) == 0
    assert capsys.readouterr().out == "+I[1]\n"
    sys.modules.pop("beside_it")
