"""Programs whose modules run a job while they are imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

TIMEOUT_S = 240.0
JOB = """
from dataclasses import dataclass
from penstock.datastream import StreamExecutionEnvironment

@dataclass
class Click:
    user: str
    count: int

def user(click):
    return click.user

def add(one, other):
    return Click(one.user, one.count + other.count)

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
clicks = env.from_collection([Click("a", 1), Click("b", 2), Click("a", 5)])
sums = clicks.key_by(user).reduce(add)
with sums.execute_and_collect() as results:
    print(all(type(click) is Click for click in results))
sums.print()
env.execute("clicks")
"""


@pytest.mark.parametrize("mode", ["pipelined", pytest.param("epochs", marks=pytest.mark.full)])
def test_a_job_may_use_what_its_module_has_defined(tmp_path, monkeypatch, mode) -> None:
    """Tasks look functions and classes up in their module, whose import waits for the tasks."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    package = tmp_path / "clicks"
    package.mkdir()
    (package / "__init__.py").write_text("from clicks import job\n")
    (package / "job.py").write_text(JOB)
    program = tmp_path / "main.py"
    program.write_text("import clicks\nprint('the end')\n")
    command = [sys.executable, "-m", "penstock", "run", "--no-spark"]
    mode_option = ["-D", f"penstock.execution.mode={mode}"]
    ran = subprocess.run(
        [*command, *mode_option, program],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert ran.stdout.splitlines() == [
        "True", "Click(user='a', count=1)", "Click(user='b', count=2)", "Click(user='a', count=6)",
        "the end",
    ]  # fmt: skip
