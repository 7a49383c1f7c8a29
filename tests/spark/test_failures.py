"""What the user of a job on Spark reads when it fails: the cause, not Java's frames."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import pytest

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import CheckpointError, JobExecutionError
from penstock.jobmanager.resources.resource_manager import ResourceManager
from penstock.spark.pipe import SparkPipe


def failure_of(function: Any) -> str:
    configuration = Configuration.from_dict({"restart-strategy.type": "none"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    made = env.from_collection([1, 2]).map(function).name("maker")
    made.key_by(lambda each: 1).map(lambda each: 2).print()
    with pytest.raises(JobExecutionError) as raised:
        env.execute("fails")
    text = str(raised.value)
    assert "org.apache.spark" not in text
    assert "pyspark/" not in text
    return text


def test_sys_exit_in_user_code_is_shown() -> None:
    text = failure_of(lambda value: sys.exit("enough"))
    assert "SystemExit: enough" in text
    assert "maker" in text


def test_a_record_that_cannot_be_pickled_names_its_maker() -> None:
    text = failure_of(lambda value: threading.Lock())
    assert text.startswith("operator 'maker' emitted a record that cannot be sent to another task")


def test_a_worker_that_crashes_is_reported() -> None:
    assert "Python worker exited unexpectedly" in failure_of(lambda value: os._exit(3))


def refuse(item: int) -> int:
    if item:
        raise CheckpointError("nothing can be written there", hint="write elsewhere")
    return item


def test_an_error_of_ours_in_a_task_beside_the_epochs_arrives_as_it_is() -> None:
    pipe = SparkPipe({}, ResourceManager())
    assert pipe.map("job", "tasks", refuse, [0, 0]) == [0, 0]
    with pytest.raises(CheckpointError, match="nothing can be written there") as raised:
        pipe.map("job", "tasks", refuse, [0, 1])
    assert raised.value.hint == "write elsewhere"
