"""Options of restart strategies and of the autoscaler."""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions
from penstock.common.options.registry import describe
from penstock.common.time import Duration

# Restarts

_RESTART_TYPES = ("none", "off", "disable", "fixed-delay", "fixeddelay", "exponential-delay")
RESTART_TYPE = describe(
    ConfigOptions.key("restart-strategy.type")
    .enum_type([*_RESTART_TYPES, "exponentialdelay", "failure-rate", "failurerate"])
    .no_default_value(),
    "Restart strategy. Without it: exponential-delay with checkpointing, none without.",
    "restart-strategy",
)
FIXED_DELAY_ATTEMPTS = describe(
    ConfigOptions.key("restart-strategy.fixed-delay.attempts").int_type().default_value(1),
    "How often the job is restarted before it fails for good.",
    minimum=0,
)
FIXED_DELAY_DELAY = describe(
    ConfigOptions.key("restart-strategy.fixed-delay.delay")
    .duration_type()
    .default_value(Duration.of_seconds(1)),
    "The wait before a restart.",
    minimum=0,
)
FAILURE_RATE_MAX = describe(
    ConfigOptions.key("restart-strategy.failure-rate.max-failures-per-interval")
    .int_type()
    .default_value(1),
    "How many failures within the interval are endured.",
    minimum=0,
)
FAILURE_RATE_INTERVAL = describe(
    ConfigOptions.key("restart-strategy.failure-rate.failure-rate-interval")
    .duration_type()
    .default_value(Duration.of_minutes(1)),
    "The interval that failures are counted in.",
    minimum=1,
)
FAILURE_RATE_DELAY = describe(
    ConfigOptions.key("restart-strategy.failure-rate.delay")
    .duration_type()
    .default_value(Duration.of_seconds(1)),
    "The wait before a restart.",
    minimum=0,
)
_EXPONENTIAL = "restart-strategy.exponential-delay."
EXPONENTIAL_INITIAL = describe(
    ConfigOptions.key(_EXPONENTIAL + "initial-backoff")
    .duration_type()
    .default_value(Duration.of_seconds(1)),
    "The wait before the first restart.",
    minimum=1,
)
EXPONENTIAL_MAX = describe(
    ConfigOptions.key(_EXPONENTIAL + "max-backoff")
    .duration_type()
    .default_value(Duration.of_minutes(1)),
    "The longest wait before a restart.",
    minimum=1,
)
EXPONENTIAL_MULTIPLIER = describe(
    ConfigOptions.key(_EXPONENTIAL + "backoff-multiplier").double_type().default_value(1.5),
    "By what the wait grows from failure to failure.",
    minimum=1,
)
EXPONENTIAL_RESET = describe(
    ConfigOptions.key(_EXPONENTIAL + "reset-backoff-threshold")
    .duration_type()
    .default_value(Duration.of_hours(1)),
    "How long a job must run without failure for the wait to begin anew.",
    minimum=1,
)
EXPONENTIAL_JITTER = describe(
    ConfigOptions.key(_EXPONENTIAL + "jitter-factor").double_type().default_value(0.1),
    "What share of the wait is random.",
    minimum=0,
)
EXPONENTIAL_ATTEMPTS = describe(
    ConfigOptions.key(_EXPONENTIAL + "attempts-before-reset-backoff").int_type().no_default_value(),
    "How many failures in a row are endured. Without it: any number.",
    minimum=1,
)

# The autoscaler

_AUTOSCALER = "job.autoscaler."
AUTOSCALER_ENABLED = describe(
    ConfigOptions.key(_AUTOSCALER + "enabled").boolean_type().default_value(False),
    "Whether the job's parallelism follows its load.",
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
    "What part of its capacity a rescaled job should use.",
    "job.autoscaler.target.utilization",
)
AUTOSCALER_MAX_UTILIZATION = describe(
    ConfigOptions.key(_AUTOSCALER + "utilization.max").double_type().no_default_value(),
    "Above what part of its capacity a job is scaled up. Without it: midway between the target and 1.",
)
AUTOSCALER_MIN_UTILIZATION = describe(
    ConfigOptions.key(_AUTOSCALER + "utilization.min").double_type().no_default_value(),
    "Below what part of its capacity a job may be scaled down. Without it: 0.3 less than the target.",
)
AUTOSCALER_STABILIZATION = describe(
    ConfigOptions.key(_AUTOSCALER + "stabilization.interval")
    .duration_type()
    .default_value(Duration.of_minutes(5)),
    "How long nothing is changed after a change.",
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
    "How long working off a backlog may take; 0: backlogs do not count.",
    minimum=0,
)
AUTOSCALER_SCALE_DOWN_INTERVAL = describe(
    ConfigOptions.key(_AUTOSCALER + "scale-down.interval")
    .duration_type()
    .default_value(Duration.of_hours(1)),
    "How long a job must have had little to do before it is scaled down.",
    minimum=0,
)
AUTOSCALER_SCALE_DOWN_FACTOR = describe(
    ConfigOptions.key(_AUTOSCALER + "scale-down.max-factor").double_type().default_value(0.6),
    "What part of the parallelism one change may take away at most.",
    minimum=0,
)
AUTOSCALER_SCALE_UP_FACTOR = describe(
    ConfigOptions.key(_AUTOSCALER + "scale-up.max-factor").double_type().default_value(100_000.0),
    "What multiple of the parallelism one change may add at most.",
    minimum=0,
)
AUTOSCALER_EFFECTIVENESS = describe(
    ConfigOptions.key(_AUTOSCALER + "scaling.effectiveness.detection.enabled")
    .boolean_type()
    .default_value(True),
    "Whether a job that got no faster by the last increase is not scaled up further.",
)
AUTOSCALER_EFFECTIVENESS_THRESHOLD = describe(
    ConfigOptions.key(_AUTOSCALER + "scaling.effectiveness.threshold")
    .double_type()
    .default_value(0.1),
    "What part of the expected gain in capacity an increase must have brought.",
    minimum=0,
)
