"""Files, packages and archives of a job reach tasks in executors, which are processes of their own with directories of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_harness import LOCAL_CLUSTER, ROOT
from network import Host
from standalone_cluster import StandaloneCluster

from tests.builders.wheels import requirements_of, write_wheel

TIMEOUT_S = 240
PROGRAM = """
import sys
from penstock.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
folder = sys.argv[1]
env.add_python_file(f"{folder}/modules/helping.py")
env.set_python_requirements(f"{folder}/requirements.txt", f"{folder}/packages")
env.add_python_archive(f"{folder}/words.zip", "words")

def see(number):
    import greeting, helping
    with open("words/list.txt") as file:
        return f"{number} {greeting.VERSION} {helping.ANSWER} {file.read()} {sys.prefix}"

with env.from_collection([1, 2]).rebalance().map(see).execute_and_collect() as results:
    for result in results:
        print("seen", result)
"""


@pytest.fixture(params=["local-cluster", "standalone"])
def master(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "local-cluster":
        yield LOCAL_CLUSTER
        return
    hosts = [Host("127.0.0.2"), Host("127.0.0.3")]
    with StandaloneCluster(tmp_path / "cluster", Host("127.0.0.1"), hosts) as cluster:
        yield cluster.url


@pytest.mark.timeout(2 * TIMEOUT_S)
def test_tasks_in_executors_have_what_their_job_asks_for(master: str, tmp_path: Path) -> None:
    write_wheel(tmp_path / "packages", "greeting", "1.5", "VERSION = '1.5'\n")
    requirements_of(tmp_path, "greeting")
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "helping.py").write_text("ANSWER = 42\n")
    with zipfile.ZipFile(tmp_path / "words.zip", "w") as packed:
        packed.writestr("list.txt", "river")
    program = tmp_path / "program" / "job.py"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    options = {
        "spark.master": master,
        "penstock.python.environments-dir": str(tmp_path / "cache"),
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
    }
    command = [sys.executable, "-m", "penstock", "run"]
    for key, value in options.items():
        command += ["-D", f"{key}={value}"]
    done = subprocess.run(
        [*command, str(program), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    seen = [line.split() for line in done.stdout.splitlines() if line.startswith("seen")]
    assert sorted(words[1:5] for words in seen) == [
        ["1", "1.5", "42", "river"],
        ["2", "1.5", "42", "river"],
    ], done.stdout + done.stderr
    assert {Path(words[5]).parent for words in seen} == {tmp_path / "cache"}
