from __future__ import annotations

import sys

import pytest

from penstock.common import Configuration, Duration
from penstock.errors import ConfigurationError
from penstock.options import OPTIONS, spark_options
from penstock.options.option_checks import find_option, validate


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("parallelism.default", None),
        ("pipeline.auto-watermark-interval", Duration.of_millis(200)),
        ("pipeline.operator-chaining.enabled", True),
        ("pipeline.global-job-parameters", {}),
        ("execution.runtime-mode", "STREAMING"),
        ("execution.buffer-timeout.interval", Duration.of_millis(100)),
        ("execution.checkpointing.interval", None),
        ("execution.checkpointing.mode", "EXACTLY_ONCE"),
        ("execution.checkpointing.timeout", Duration.of_minutes(10)),
        ("execution.checkpointing.num-retained", 1),
        ("execution.state-recovery.path", None),
        ("state.backend.type", "hashmap"),
        ("restart-strategy.exponential-delay.backoff-multiplier", 1.5),
        ("rest.port", 0),
        ("penstock.rest.enabled", True),
        ("penstock.epoch.interval", Duration.of_seconds(1)),
        ("penstock.progress", "auto"),
        ("execution.checkpointing.data-inline-threshold", 20480),
        ("table.exec.state.ttl", Duration.of_millis(0)),
        ("sql-client.execution.result-mode", "table"),
        ("web.cancel.enable", True),
        ("penstock.debug.check-order", False),
    ],
)
def test_an_option_has_its_default(key, default):
    assert Configuration().get(OPTIONS[key]) == default


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("state.checkpoints.dir", "execution.checkpointing.dir"),
        ("state.savepoints.dir", "execution.checkpointing.savepoint-dir"),
        ("state.checkpoints.num-retained", "execution.checkpointing.num-retained"),
        ("execution.savepoint.path", "execution.state-recovery.path"),
        ("state.backend", "state.backend.type"),
        ("restart-strategy", "restart-strategy.type"),
        ("penstock.buffer.bytes", "taskmanager.memory.segment-size"),
        ("penstock.state.inline-threshold", "execution.checkpointing.data-inline-threshold"),
    ],
)
def test_deprecated_keys_lead_to_their_options(old, new):
    assert find_option(old) is OPTIONS[new]


def test_every_option_is_described_and_no_key_is_taken_twice():
    keys = [key for option in OPTIONS.values() for key in (option.key, *option.deprecated_keys)]
    assert len(keys) == len(set(keys))
    assert [option.key for option in OPTIONS.values() if not option.description] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("parallelism.default", "4"),
        ("execution.checkpointing.interval", "10 s"),
        ("execution.checkpointing.interval", 1000),
        ("state.checkpoints.dir", "file:///tmp/checkpoints"),
        ("spark.executor.memory", "2g"),
        ("spark.anything.at.all", 1),
        ("jobmanager.memory.process.size", "1600m"),
        ("taskmanager.memory.managed.size", "1gb"),
        ("table.exec.mini-batch.enabled", "true"),
        ("high-availability", "zookeeper"),
        ("state.backend.rocksdb.thread.num", 4),
        ("python.fn-execution.bundle.size", 1000),
        ("python.executable", sys.executable),
        ("pipeline.jars", "file:///connector.jar"),
        ("pipeline.global-job-parameters.tenant", "x"),
        ("execution.runtime-mode", "batch"),
        ("restart-strategy.type", "fixed-delay"),
        ("penstock.progress", "never"),
    ],
)
def test_known_options_pass(key, value):
    validate(Configuration.from_dict({key: value}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("parallelism.default", "many"),
        ("parallelism.default", 0),
        ("execution.checkpointing.interval", "soon"),
        ("execution.checkpointing.interval", "-5 s"),
        ("state.checkpoints.num-retained", "0"),
        ("pipeline.operator-chaining.enabled", "maybe"),
        ("state.backend.type", "memory"),
        ("taskmanager.memory.segment-size", "0 b"),
        ("taskmanager.memory.process.size", "banana"),
        ("table.exec.state.ttl", "long"),
        ("table.exec.sink.upsert-materialize", "SOMETIMES"),
        ("sql-client.execution.result-mode", "cards"),
    ],
)
def test_a_wrong_value_is_refused_by_name(key, value):
    with pytest.raises(ConfigurationError, match=f"option '{key}' cannot be {value!r}"):
        validate(Configuration.from_dict({key: value}))


def test_options_of_spark_are_picked_out():
    configuration = Configuration.from_dict({"spark.a": True, "parallelism.default": 1})
    assert spark_options(configuration) == {"spark.a": "true"}


def test_slots_of_a_taskmanager_are_cores_of_an_executor():
    def cores(**given):
        dotted = {key.replace("_", "."): value for key, value in given.items()}
        return spark_options(Configuration.from_dict(dotted)).get("spark.executor.cores")

    slots = {"taskmanager_numberOfTaskSlots": 3}
    assert cores() is None
    assert cores(**slots) == "3"
    assert cores(**slots, spark_task_cpus="2") == "6"
    assert cores(**slots, spark_executor_cores="5") == "5"
