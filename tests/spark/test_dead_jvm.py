"""A JVM that dies while the context is being made: the next attempt has one of its own, and none is left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

import penstock
from penstock.processes import temporary

# In a process of its own: the context of the other tests lives on.
PROGRAM = """
import os, signal, sys

import psutil
from pyspark import SparkContext

from penstock.errors import PenstockError
from penstock.spark.session import get_context

make = SparkContext._do_init
deaths = int(sys.argv[1])


def die_while_it_is_made(self, *arguments, **options):
    global deaths
    if deaths:
        deaths -= 1
        os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
    return make(self, *arguments, **options)


SparkContext._do_init = die_while_it_is_made
while deaths:
    try:
        get_context({"spark.master": "local[1]"})
    except PenstockError as error:
        print(error.message)
context = get_context({"spark.master": "local[1]"})
print("sum", context.parallelize(range(5), 1).sum())
jvms = [each for each in psutil.Process().children() if "java" in each.name()]
print("JVMs", len([each for each in jvms if each.status() != psutil.STATUS_ZOMBIE]))
"""


def test_a_driver_whose_jvm_dies_at_the_start_recovers():
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, "2"],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(Path(penstock.__file__).parents[1])},
    )
    died = "the JVM for Spark ended with exit code -9 while the SparkContext was created"
    assert ran.stdout.splitlines() == [died, died, "sum 10", "JVMs 1"], ran.stderr


REFUSED = """
from penstock.errors import ConfigurationError
from penstock.spark.session import get_context

for memory in "100m", "banana", "5":
    try:
        get_context({"spark.master": "local[1]", "spark.driver.memory": memory})
    except ConfigurationError as error:  # no restart helps
        print(error.message, "|", " ".join(error.detail.split()), "|", error.hint)
print(get_context({"spark.master": "local[1]"}).parallelize(range(5), 1).sum())
"""


def test_options_that_spark_and_java_reject_are_reported_in_their_words():
    ran = subprocess.run(
        [sys.executable, "-c", REFUSED],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(Path(penstock.__file__).parents[1])},
    )
    by_spark, no_number, too_small, after = ran.stdout.splitlines()
    assert by_spark.startswith("Spark cannot start on master 'local[1]' | "), by_spark
    assert "Insufficient driver memory" in by_spark
    ended = "the JVM for Spark ended at once with exit code 1"
    assert no_number.startswith(f"{ended} | Invalid maximum heap size: -Xmxbanana"), no_number
    assert "spark.driver.memory" in no_number
    assert too_small.startswith(ended), too_small
    assert "Too small maximum heap" in too_small
    assert after == "10"


NO_MASTER = """
from penstock.errors import ConfigurationError
from penstock.spark.session import get_context

for master in "nonsense://x", "local[x]", "local[0]", "yarn":
    try:
        get_context({"spark.master": master})
    except ConfigurationError as error:  # no restart helps
        print(error.message, "|", error.detail, "|", error.hint)
print(get_context({"spark.master": "local[1]"}).parallelize(range(5), 1).sum())
"""


def test_a_master_that_spark_does_not_know_is_refused_in_its_words():
    hadoop = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HADOOP_HOME")
    environment = {key: value for key, value in os.environ.items() if key not in hadoop}
    ran = subprocess.run(
        [sys.executable, "-c", NO_MASTER],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**environment, "PYTHONPATH": str(Path(penstock.__file__).parents[1])},
    )
    unknown, unreadable, empty, yarn, after = ran.stdout.splitlines()
    assert unknown.startswith("invalid Spark master 'nonsense://x' | Master must either be"), (
        unknown
    )
    assert "-m" in unknown
    assert unreadable.startswith("invalid Spark master 'local[x]' | "), unreadable
    assert "Could not parse Master URL" in unreadable
    assert empty.startswith("invalid Spark master 'local[0]' | "), empty
    assert "it has no Hadoop configuration | When running with master 'yarn'" in yarn
    assert "set HADOOP_CONF_DIR" in yarn
    assert after == "10"


TALKATIVE = """
from pyspark import SparkConf
from penstock.spark.gateway import launch_by_submit

conf = SparkConf().set("spark.master", "local[1]")
conf.set("spark.driver.extraJavaOptions", "-Xlog:class+load=info:stderr")
gateway = launch_by_submit(conf)
print("answers", gateway.jvm.java.lang.Math.abs(-7))
gateway.shutdown()
"""


def test_a_jvm_that_writes_much_before_it_answers_does_not_wait_for_a_reader():
    ran = subprocess.run(
        [sys.executable, "-c", TALKATIVE],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(Path(penstock.__file__).parents[1])},
    )
    said = ran.stdout.splitlines()
    assert "answers 7" in said, ran.stderr
    assert any("org.apache.spark" in line for line in said), "what it wrote is passed on"


KILLED_WHILE_ITS_JVM_STARTS = """
import os, signal, sys
from pathlib import Path

from penstock.spark.gateway import LocalJvm

Path(sys.argv[1]).write_text(str(LocalJvm({"spark.master": "local[1]"}).process.pid))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_jvm_whose_driver_is_killed_while_it_starts_ends_although_the_next_driver_tidies_up(
    tmp_path, monkeypatch
):
    started = tmp_path / "pid"
    # Its output is not read: the JVM has it too, and would be waited for.
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_ITS_JVM_STARTS, str(started)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(Path(penstock.__file__).parents[1])},
    )
    assert killed.returncode == -signal.SIGKILL
    jvm = psutil.Process(int(started.read_text()))
    monkeypatch.setattr(temporary, "_swept", set())
    temporary.sweep()
    gone, alive = psutil.wait_procs([jvm], timeout=240)
    for each in alive:
        each.kill()
    assert (gone, alive) == ([jvm], [])
