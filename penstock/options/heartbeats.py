"""Options of heartbeats between the driver and the slots of a job in pipelined mode. Names are Flink's."""

from __future__ import annotations

from penstock.options.config_options import ConfigOptions
from penstock.options.registry import describe
from penstock.time.durations import Duration

HEARTBEAT_INTERVAL = describe(
    ConfigOptions.key("heartbeat.interval").duration_type().default_value(Duration.of_seconds(10)),
    "How often the driver and the slots of a job in pipelined mode send each other heartbeats. Must be shorter than heartbeat.timeout.",
    minimum=1,
)
HEARTBEAT_TIMEOUT = describe(
    ConfigOptions.key("heartbeat.timeout").duration_type().default_value(Duration.of_seconds(50)),
    "After this time without a heartbeat, the driver and a slot of a job in pipelined mode consider each other lost: the process is "
    "paused, or its machine cannot be reached. A process that ends is noticed at once.",
    minimum=1,
)
