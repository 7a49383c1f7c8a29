"""Options of buffer debloating: it limits the in-flight data of a subtask by its processing time. Names are Flink's."""

from __future__ import annotations

from penstock.options.config_options import ConfigOptions
from penstock.options.registry import describe
from penstock.time.durations import Duration

_DEBLOAT = "taskmanager.network.memory.buffer-debloat."

DEBLOAT_ENABLED = describe(
    ConfigOptions.key(_DEBLOAT + "enabled").boolean_type().default_value(True),
    "Whether the in-flight data of a subtask is limited to what it processes in the target time, in pipelined mode. Flink's default is false.",
)
DEBLOAT_TARGET = describe(
    ConfigOptions.key(_DEBLOAT + "target").duration_type().default_value(Duration.of_seconds(1)),
    "Target time to process the in-flight data of a subtask.",
    minimum=1,
)
DEBLOAT_PERIOD = describe(
    ConfigOptions.key(_DEBLOAT + "period").duration_type().default_value(Duration.of_millis(200)),
    "Interval of the throughput measurements.",
    minimum=1,
)
DEBLOAT_SAMPLES = describe(
    ConfigOptions.key(_DEBLOAT + "samples").int_type().default_value(20),
    "Number of measurements to average.",
    minimum=1,
)
DEBLOAT_THRESHOLD = describe(
    ConfigOptions.key(_DEBLOAT + "threshold-percentages").int_type().default_value(25),
    "Minimum change of the buffer size, in percent.",
    minimum=0,
)
