"""A program for PyFlink whose job fails."""

from __future__ import annotations

from penstock.cli import main

CATCHING = """
from py4j.protocol import Py4JJavaError
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([0]).map(lambda value: 1 // value).print()
try:
    env.execute("division")
except Py4JJavaError as error:
    print("caught", error.java_exception.getClass().getSimpleName(), "by zero" in str(error))
"""


def test_a_program_for_pyflink_catches_the_failure_of_its_job(tmp_path, capsys):
    script = tmp_path / "catching.py"
    script.write_text(CATCHING)
    assert main(["run", "--no-spark", str(script)]) == 0
    assert capsys.readouterr().out == "caught JobExecutionException True\n"
