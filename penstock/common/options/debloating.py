"""Options of how much may be under way to a subtask, by the time that it takes to process it. Names are Flink's."""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions
from penstock.common.options.registry import describe
from penstock.common.time import Duration

_DEBLOAT = "taskmanager.network.memory.buffer-debloat."

DEBLOAT_ENABLED = describe(
    ConfigOptions.key(_DEBLOAT + "enabled").boolean_type().default_value(True),
    "Whether no more is under way to a subtask than it processes in the target time, in pipelined execution. Flink's default is false.",
)
DEBLOAT_TARGET = describe(
    ConfigOptions.key(_DEBLOAT + "target").duration_type().default_value(Duration.of_seconds(1)),
    "How long a subtask may take to process what is under way to it.",
    minimum=1,
)
DEBLOAT_PERIOD = describe(
    ConfigOptions.key(_DEBLOAT + "period").duration_type().default_value(Duration.of_millis(200)),
    "How often it is measured what a subtask processes.",
    minimum=1,
)
DEBLOAT_SAMPLES = describe(
    ConfigOptions.key(_DEBLOAT + "samples").int_type().default_value(20),
    "How many measurements make an average.",
    minimum=1,
)
DEBLOAT_THRESHOLD = describe(
    ConfigOptions.key(_DEBLOAT + "threshold-percentages").int_type().default_value(25),
    "By how many percent a size must differ from the last one to replace it.",
    minimum=0,
)
