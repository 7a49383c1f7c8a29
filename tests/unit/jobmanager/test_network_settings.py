"""What the options say about the network between slots."""

from __future__ import annotations

import pytest

from penstock.common import Configuration
from penstock.errors import ConfigurationError
from penstock.graph.stage import BarrierSettings, NetworkSettings
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
