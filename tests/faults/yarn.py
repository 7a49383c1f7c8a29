"""Programs on YARN: how they are submitted, what their processes are, what their containers print."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
from collections.abc import Sequence
from pathlib import Path

import psutil
import pyspark

from tools.servers.hadoop import HadoopCluster

SPARK_HOME = Path(pyspark.__file__).parent
# Containers are on this machine, and find the jars where they are.
OPTIONS = {
    "spark.master": "yarn",
    "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
    "spark.executor.instances": "2",
    "spark.executor.memory": "512m",
    "spark.dynamicAllocation.enabled": "false",
    "spark.yarn.submit.waitAppCompletion": "true",
}
EXECUTOR = "YarnCoarseGrainedExecutorBackend"
MASTERS = ("yarn.ExecutorLauncher", "yarn.ApplicationMaster")  # in client mode, in cluster mode


def processes(hadoop: HadoopCluster, *names: str) -> list[psutil.Process]:
    """Return the JVMs in containers that run one of these classes."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        here = any(str(hadoop.directory) in word for word in words)
        if here and words[0].endswith("/java") and any(n in w for w in words for n in names):
            found.append(process)
    return found


def application_masters(hadoop: HadoopCluster) -> list[psutil.Process]:
    """Return the JVMs of application masters."""
    return processes(hadoop, *MASTERS)


def container_logs(hadoop: HadoopCluster) -> str:
    """Return what containers have printed."""
    files = sorted((hadoop.directory / "logs").glob("application_*/container_*/*"))
    texts = [f"--- {path}\n{path.read_text(errors='replace')}" for path in files if path.is_file()]
    return "\n".join(texts)


def pack_environment(directory: Path) -> Path:
    """Return an archive with an environment like that of the tests, as venv-pack makes them.

    It has an interpreter of its own. The packages stay where they are: all of them are 1 GB.
    """
    home = directory / "env"
    venv.create(home, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages")
    packages = [path for path in sys.path if path.endswith("site-packages")]
    lines = [f"import site; site.addsitedir({path!r})\n" for path in packages]
    (site / "beneath.pth").write_text("".join(lines))
    archive = directory / "env.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        for path in home.iterdir():
            packed.add(path, path.name)
    return archive


def submit_command(archive: Path, options: dict[str, str], mode: str) -> Sequence[str]:
    """Return the command that submits a program, without the program."""
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", mode]
    command += ["--archives", f"{archive}#env"]
    given = {**OPTIONS, "spark.driver.memory": "512m", **options}
    del given["spark.master"]
    for key, value in given.items():
        command += ["--conf", f"{key}={value}"]
    return command


def submit_environment(hadoop: HadoopCluster) -> dict[str, str]:
    """Return the environment in which a program is submitted that runs in a packed environment."""
    return {
        **hadoop.environment,
        "SPARK_HOME": str(SPARK_HOME),
        "PYSPARK_PYTHON": "./env/bin/python",
    }


def run_program(command: Sequence[str], environment: dict[str, str]) -> tuple[int, str]:
    """Run a program to its end; return its exit code and what it has printed."""
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout
