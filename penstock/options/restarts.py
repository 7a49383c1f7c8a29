"""Options of restart strategies and of the autoscaler."""

from __future__ import annotations

from penstock.options.config_options import ConfigOptions
from penstock.options.registry import describe
from penstock.time.durations import Duration

# Restarts

_RESTART_TYPES = ("none", "off", "disable", "fixed-delay", "fixeddelay", "exponential-delay")
RESTART_TYPE = describe(
    ConfigOptions.key("restart-strategy.type")
    .enum_type([*_RESTART_TYPES, "exponentialdelay", "failure-rate", "failurerate"])
    .no_default_value(),
    "Restart strategy. Default: exponential-delay with checkpointing, none without.",
    "restart-strategy",
)
FIXED_DELAY_ATTEMPTS = describe(
    ConfigOptions.key("restart-strategy.fixed-delay.attempts").int_type().default_value(1),
    "Maximum number of restarts before the job fails.",
    minimum=0,
)
FIXED_DELAY_DELAY = describe(
    ConfigOptions.key("restart-strategy.fixed-delay.delay")
    .duration_type()
    .default_value(Duration.of_seconds(1)),
    "Delay before a restart.",
    minimum=0,
)
FAILURE_RATE_MAX = describe(
    ConfigOptions.key("restart-strategy.failure-rate.max-failures-per-interval")
    .int_type()
    .default_value(1),
    "Maximum number of failures within the interval.",
    minimum=0,
)
FAILURE_RATE_INTERVAL = describe(
    ConfigOptions.key("restart-strategy.failure-rate.failure-rate-interval")
    .duration_type()
    .default_value(Duration.of_minutes(1)),
    "Interval in which failures are counted.",
    minimum=1,
)
FAILURE_RATE_DELAY = describe(
    ConfigOptions.key("restart-strategy.failure-rate.delay")
    .duration_type()
    .default_value(Duration.of_seconds(1)),
    "Delay before a restart.",
    minimum=0,
)
_EXPONENTIAL = "restart-strategy.exponential-delay."
EXPONENTIAL_INITIAL = describe(
    ConfigOptions.key(_EXPONENTIAL + "initial-backoff")
    .duration_type()
    .default_value(Duration.of_seconds(1)),
    "Delay before the first restart.",
    minimum=1,
)
EXPONENTIAL_MAX = describe(
    ConfigOptions.key(_EXPONENTIAL + "max-backoff")
    .duration_type()
    .default_value(Duration.of_minutes(1)),
    "Maximum delay before a restart.",
    minimum=1,
)
EXPONENTIAL_MULTIPLIER = describe(
    ConfigOptions.key(_EXPONENTIAL + "backoff-multiplier").double_type().default_value(1.5),
    "Factor by which the delay grows with each failure.",
    minimum=1,
)
EXPONENTIAL_RESET = describe(
    ConfigOptions.key(_EXPONENTIAL + "reset-backoff-threshold")
    .duration_type()
    .default_value(Duration.of_hours(1)),
    "How long a job must run without a failure to reset the delay.",
    minimum=1,
)
EXPONENTIAL_JITTER = describe(
    ConfigOptions.key(_EXPONENTIAL + "jitter-factor").double_type().default_value(0.1),
    "Random share of the delay.",
    minimum=0,
)
EXPONENTIAL_ATTEMPTS = describe(
    ConfigOptions.key(_EXPONENTIAL + "attempts-before-reset-backoff").int_type().no_default_value(),
    "Maximum number of failures in a row. Default: unlimited.",
    minimum=1,
)

# The autoscaler

_AUTOSCALER = "job.autoscaler."
AUTOSCALER_ENABLED = describe(
    ConfigOptions.key(_AUTOSCALER + "enabled").boolean_type().default_value(False),
    "Whether the autoscaler adapts the job's parallelism to its load.",
)
AUTOSCALER_SCALING_ENABLED = describe(
    ConfigOptions.key(_AUTOSCALER + "scaling.enabled").boolean_type().default_value(True),
    "Whether the autoscaler's decisions are carried out. False: they are only logged.",
)
AUTOSCALER_MIN_PARALLELISM = describe(
    ConfigOptions.key(_AUTOSCALER + "vertex.min-parallelism").int_type().default_value(1),
    "The lowest parallelism that the autoscaler chooses.",
    minimum=1,
)
AUTOSCALER_MAX_PARALLELISM = describe(
    ConfigOptions.key(_AUTOSCALER + "vertex.max-parallelism").int_type().default_value(200),
    "The highest parallelism that the autoscaler chooses; the operators' max parallelism is a limit too.",
    minimum=1,
)
AUTOSCALER_TARGET = describe(
    ConfigOptions.key(_AUTOSCALER + "utilization.target").double_type().default_value(0.7),
    "Target utilization of a rescaled job.",
    "job.autoscaler.target.utilization",
)
AUTOSCALER_MAX_UTILIZATION = describe(
    ConfigOptions.key(_AUTOSCALER + "utilization.max").double_type().no_default_value(),
    "Utilization above which a job is scaled up. Default: midway between the target and 1.",
)
AUTOSCALER_MIN_UTILIZATION = describe(
    ConfigOptions.key(_AUTOSCALER + "utilization.min").double_type().no_default_value(),
    "Utilization below which a job may be scaled down. Default: 0.3 less than the target.",
)
AUTOSCALER_STABILIZATION = describe(
    ConfigOptions.key(_AUTOSCALER + "stabilization.interval")
    .duration_type()
    .default_value(Duration.of_minutes(5)),
    "Minimum time between two changes.",
    minimum=0,
)
AUTOSCALER_WINDOW = describe(
    ConfigOptions.key(_AUTOSCALER + "metrics.window")
    .duration_type()
    .default_value(Duration.of_minutes(15)),
    "The time over which load and capacity are averaged.",
    minimum=1,
)
AUTOSCALER_CATCH_UP = describe(
    ConfigOptions.key(_AUTOSCALER + "catch-up.duration")
    .duration_type()
    .default_value(Duration.of_minutes(30)),
    "How long processing a backlog may take; 0: backlogs are ignored.",
    minimum=0,
)
AUTOSCALER_SCALE_DOWN_INTERVAL = describe(
    ConfigOptions.key(_AUTOSCALER + "scale-down.interval")
    .duration_type()
    .default_value(Duration.of_hours(1)),
    "How long the load must have been low before a job is scaled down.",
    minimum=0,
)
AUTOSCALER_SCALE_DOWN_FACTOR = describe(
    ConfigOptions.key(_AUTOSCALER + "scale-down.max-factor").double_type().default_value(0.6),
    "Maximum share of the parallelism that one change may remove.",
    minimum=0,
)
AUTOSCALER_SCALE_UP_FACTOR = describe(
    ConfigOptions.key(_AUTOSCALER + "scale-up.max-factor").double_type().default_value(100_000.0),
    "Maximum multiple of the parallelism that one change may add.",
    minimum=0,
)
AUTOSCALER_EFFECTIVENESS = describe(
    ConfigOptions.key(_AUTOSCALER + "scaling.effectiveness.detection.enabled")
    .boolean_type()
    .default_value(True),
    "Whether a job is not scaled up further if the last increase had no effect.",
)
AUTOSCALER_EFFECTIVENESS_THRESHOLD = describe(
    ConfigOptions.key(_AUTOSCALER + "scaling.effectiveness.threshold")
    .double_type()
    .default_value(0.1),
    "Share of the expected capacity gain that an increase must achieve to count as effective.",
    minimum=0,
)
