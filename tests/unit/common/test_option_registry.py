from __future__ import annotations

import sys

import pytest

from penstock.common import Configuration, Duration
from penstock.common.ignored_options import NO_EFFECT_PREFIXES
from penstock.common.option_checks import find_option, validate
from penstock.common.options import OPTIONS, spark_options
from penstock.errors import ConfigurationError


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
        ("penstock.state.inline-threshold", 20480),
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
    ("key", "nearest"),
    [
        ("paralelism.default", "parallelism.default"),
        ("execution.checkpoint.interval", "execution.checkpointing.interval"),
        ("taskmanager.numberOfTaskSlot", "taskmanager.numberOfTaskSlots"),
        ("state.backend.typ", "state.backend.type"),
        ("penstock.epoch.intervall", "penstock.epoch.interval"),
        ("python.fn-execution.bundle.sise", "python.fn-execution.bundle.size"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_names(key, nearest):
    with pytest.raises(ConfigurationError) as caught:
        validate(Configuration.from_dict({key: "1"}))
    assert caught.value.message == f"option '{key}' is unknown"
    assert nearest in caught.value.hint


def test_an_option_like_no_other_gets_a_general_hint():
    with pytest.raises(ConfigurationError, match="set_global_job_parameters"):
        validate(Configuration.from_dict({"zzz": 1}))


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
    ],
)
def test_a_wrong_value_is_refused_by_name(key, value):
    with pytest.raises(ConfigurationError, match=f"option '{key}' cannot be {value!r}"):
        validate(Configuration.from_dict({key: value}))


def test_options_of_spark_are_picked_out():
    configuration = Configuration.from_dict({"spark.a": True, "parallelism.default": 1})
    assert spark_options(configuration) == {"spark.a": "true"}


def test_prefixes_without_effect_hide_no_option():
    hidden = [
        key for key in OPTIONS if key.startswith(NO_EFFECT_PREFIXES) and find_option(key) is None
    ]
    assert hidden == []
    for key in ("task.cancellation.timeout", "metrics.latency.interval"):
        with pytest.raises(ConfigurationError):
            validate(Configuration.from_dict({key: "never"}))
