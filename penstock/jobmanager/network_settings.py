"""The network and barrier settings of pipelined mode, from the options."""

from __future__ import annotations

import logging

from penstock import options
from penstock.errors import ConfigurationError
from penstock.graph.stage import (
    BarrierSettings,
    DebloatSettings,
    HeartbeatSettings,
    NetworkSettings,
)
from penstock.options.configuration import Configuration

_log = logging.getLogger(__name__)


def network_settings(configuration: Configuration) -> NetworkSettings:
    """Read the network settings."""
    buffer = configuration.get(options.BUFFER_BYTES)
    return NetworkSettings(
        channel_bytes=buffer * configuration.get(options.NETWORK_BUFFERS_PER_CHANNEL),
        gate_bytes=buffer * configuration.get(options.NETWORK_FLOATING_BUFFERS),
        slot_bytes=configuration.get(options.NETWORK_MEMORY_MAX),
        buffer_timeout_ms=_buffer_timeout(configuration),
        latency_interval_ms=max(configuration.get(options.LATENCY_INTERVAL).to_millis(), 0),
        debloat=DebloatSettings(
            enabled=configuration.get(options.DEBLOAT_ENABLED),
            target_s=configuration.get(options.DEBLOAT_TARGET).to_millis() / 1000,
            period_s=configuration.get(options.DEBLOAT_PERIOD).to_millis() / 1000,
            samples=configuration.get(options.DEBLOAT_SAMPLES),
            threshold_percent=configuration.get(options.DEBLOAT_THRESHOLD),
        ),
        heartbeat=_heartbeat_settings(configuration),
    )


def barrier_settings(configuration: Configuration) -> BarrierSettings:
    """Read the barrier settings."""
    exactly_once = configuration.get(options.CHECKPOINT_MODE) == "EXACTLY_ONCE"
    unaligned = configuration.get(options.UNALIGNED)
    concurrent = configuration.get(options.CHECKPOINT_MAX_CONCURRENT)
    if unaligned and not exactly_once:
        _log.warning(
            "%s is ignored: unaligned checkpoints need %s: EXACTLY_ONCE",
            options.UNALIGNED.key,
            options.CHECKPOINT_MODE.key,
        )
    elif unaligned and concurrent > 1:
        raise ConfigurationError(
            f"unaligned checkpoints do not support {concurrent} concurrent checkpoints",
            hint=f"set {options.CHECKPOINT_MAX_CONCURRENT.key} to 1, or {options.UNALIGNED.key} to false",
        )
    return BarrierSettings(
        exactly_once=exactly_once,
        unaligned=unaligned and exactly_once,
        aligned_timeout_ms=configuration.get(options.ALIGNED_TIMEOUT).to_millis(),
    )


def _heartbeat_settings(configuration: Configuration) -> HeartbeatSettings:
    interval = configuration.get(options.HEARTBEAT_INTERVAL)
    timeout = configuration.get(options.HEARTBEAT_TIMEOUT)
    if interval.to_millis() >= timeout.to_millis():
        raise ConfigurationError(
            f"{options.HEARTBEAT_INTERVAL.key} is not shorter than {options.HEARTBEAT_TIMEOUT.key}",
            detail=f"with a heartbeat every {interval} and a timeout of {timeout}, every slot would be lost",
            hint=f"set {options.HEARTBEAT_INTERVAL.key} to a fifth of {options.HEARTBEAT_TIMEOUT.key}, as by default",
        )
    return HeartbeatSettings(interval.to_millis(), timeout.to_millis())


def _buffer_timeout(configuration: Configuration) -> int | None:
    timeout = configuration.get(options.BUFFER_TIMEOUT).to_millis()
    if timeout < 0 or not configuration.get(options.BUFFER_TIMEOUT_ENABLED):
        return None
    return timeout
