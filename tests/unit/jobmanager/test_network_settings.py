"""What the options say about the network between slots."""

from __future__ import annotations

import pytest

from penstock.common import Configuration
from penstock.errors import ConfigurationError
from penstock.graph.stage import BarrierSettings, HeartbeatSettings, NetworkSettings
from penstock.jobmanager.network_settings import barrier_settings, network_settings


def settings(**values: str) -> NetworkSettings:
    configuration = Configuration()
    for name, value in values.items():
        configuration.set_string(NAMES[name], value)
    return network_settings(configuration)


NAMES = {
    "segment": "taskmanager.memory.segment-size",
    "channel": "taskmanager.network.memory.buffers-per-channel",
    "floating": "taskmanager.network.memory.floating-buffers-per-gate",
    "slot": "taskmanager.memory.network.max",
    "timeout": "execution.buffer-timeout",
    "enabled": "execution.buffer-timeout.enabled",
    "latency": "metrics.latency.interval",
    "heartbeat": "heartbeat.interval",
    "silence": "heartbeat.timeout",
}


def test_the_options_defaults_are_those_of_the_settings() -> None:
    assert settings() == NetworkSettings()


def test_buffers_are_counted_in_segments() -> None:
    found = settings(segment="1 kb", channel="3", floating="5", slot="1 mb")
    assert (found.channel_bytes, found.gate_bytes, found.slot_bytes) == (3072, 5120, 1048576)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"timeout": "0 ms"}, 0),
        ({"timeout": "7 ms"}, 7),
        ({"timeout": "-1"}, None),
        ({"enabled": "false"}, None),
    ],
    ids=["after every batch", "some time", "full buffers only", "switched off"],
)
def test_the_buffer_timeout_has_three_meanings(values, expected) -> None:
    assert settings(**values).buffer_timeout_ms == expected


def test_latency_markers_have_their_interval() -> None:
    assert settings(latency="200 ms").latency_interval_ms == 200


def test_heartbeats_have_their_interval_and_timeout() -> None:
    assert settings().heartbeat == HeartbeatSettings(interval_ms=10_000, timeout_ms=50_000)
    assert settings(heartbeat="2 s", silence="7 s").heartbeat == HeartbeatSettings(2000, 7000)


@pytest.mark.parametrize(
    "values",
    [{"silence": "10 s"}, {"heartbeat": "1 min"}, {"heartbeat": "3 s", "silence": "2999 ms"}],
    ids=["equal", "interval only", "both"],
)
def test_an_interval_that_is_not_shorter_than_the_timeout_is_refused(values) -> None:
    with pytest.raises(ConfigurationError) as refused:
        settings(**values)
    assert refused.value.message == "heartbeat.interval is not shorter than heartbeat.timeout"
    assert "a fifth of heartbeat.timeout" in str(refused.value.hint)


def barriers(**values):
    configuration = Configuration()
    for key, value in values.items():
        configuration.set_string(f"execution.checkpointing.{key.replace('_', '-')}", str(value))
    return barrier_settings(configuration)


def test_barriers_are_aligned_unless_told_otherwise():
    assert barriers() == BarrierSettings(exactly_once=True, unaligned=False, aligned_timeout_ms=0)
    found = barriers(**{"unaligned.enabled": "true", "aligned-checkpoint-timeout": "5 s"})
    assert found == BarrierSettings(exactly_once=True, unaligned=True, aligned_timeout_ms=5000)


def test_at_least_once_has_nothing_to_align_and_says_so(caplog):
    found = barriers(**{"unaligned.enabled": "true", "mode": "AT_LEAST_ONCE"})
    assert (found.exactly_once, found.unaligned) == (False, False)
    assert "unaligned checkpoints need execution.checkpointing.mode: EXACTLY_ONCE" in caplog.text


def test_several_checkpoints_at_a_time_cannot_be_unaligned():
    with pytest.raises(ConfigurationError, match="2 concurrent checkpoints"):
        barriers(**{"unaligned.enabled": "true", "max-concurrent-checkpoints": 2})
