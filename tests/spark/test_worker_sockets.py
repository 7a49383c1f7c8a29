"""A job runs where Java's temporary directory has a path that is too long for Unix sockets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import penstock

# In a process of its own: the directory belongs to a JVM.
PROGRAM = """
import sys
from penstock.spark.session import get_context

context = get_context({
    "spark.master": "local[1]",
    "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={sys.argv[1]}",
})
print("sum", context.parallelize(range(5), 1).sum())
print("sockets", context.getConf().get("spark.python.unix.domain.socket.dir"))
"""


def test_workers_start_where_the_temporary_directory_has_a_long_path(tmp_path: Path) -> None:
    directory = tmp_path / ("x" * 100)
    directory.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(directory)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(Path(penstock.__file__).parents[1])},
    )
    lines = ran.stdout.splitlines()
    assert "sum 10" in lines, ran.stdout + ran.stderr
    place = next(line.split()[1] for line in lines if line.startswith("sockets"))
    assert not Path(place).exists(), "the directory outlives its process"
