"""Options of tables: the planner, its operators and how results are shown, by Flink's names."""

from __future__ import annotations

from penstock.options.config_options import ConfigOption, ConfigOptions
from penstock.options.registry import describe
from penstock.time.durations import Duration


def _duration(key: str, millis: int, text: str) -> ConfigOption[Duration]:
    default = Duration.of_millis(millis)
    return describe(ConfigOptions.key(key).duration_type().default_value(default), text, minimum=0)


def _flag(key: str, default: bool, text: str) -> ConfigOption[bool]:
    return describe(ConfigOptions.key(key).boolean_type().default_value(default), text)


def _choice(key: str, choices: list[str], default: str, text: str) -> ConfigOption[str]:
    return describe(ConfigOptions.key(key).enum_type(choices).default_value(default), text)


def _number(key: str, default: int, text: str, minimum: int = 1) -> ConfigOption[int]:
    return describe(ConfigOptions.key(key).int_type().default_value(default), text, minimum=minimum)


def _text(key: str, default: str, text: str) -> ConfigOption[str]:
    return describe(ConfigOptions.key(key).string_type().default_value(default), text)


LOCAL_TIME_ZONE = _text(
    "table.local-time-zone",
    "default",
    "The session time zone, such as Europe/Berlin or GMT+08:00; default: that of the machine.",
)
SQL_DIALECT = _choice(
    "table.sql-dialect",
    ["default"],
    "default",
    "SQL dialect. Only Flink's own is supported: default.",
)
DISPLAY_WIDTH = _number(
    "table.display.max-column-width",
    30,
    "Number of characters after which a printed column is truncated.",
)
DML_SYNC = _flag(
    "table.dml-sync", False, "Whether execute_sql() of an INSERT waits for the end of its job."
)
RESULT_MODE = _choice(
    "sql-client.execution.result-mode",
    ["table", "changelog", "tableau"],
    "table",
    "How the SQL client shows the rows of a query.",
)
STATE_TTL = _duration("table.exec.state.ttl", 0, "TTL of idle state; 0: forever.")
IDLE_TIMEOUT = _duration(
    "table.exec.source.idle-timeout",
    0,
    "Time without records after which a split of a source is idle and no longer holds back watermarks; 0: never.",
)
DUPLICATES = _flag(
    "table.exec.source.cdc-events-duplicate",
    False,
    "Whether change sources may send duplicates. If so, their changes are normalized by primary key.",
)
MATERIALIZE = _choice(
    "table.exec.sink.upsert-materialize",
    ["NONE", "AUTO", "FORCE"],
    "AUTO",
    "Whether the order of the changes of a primary key is restored before the sink. AUTO: if the sink's primary key differs from the upsert key of the query.",
)
KEYED_SHUFFLE = _choice(
    "table.exec.sink.keyed-shuffle",
    ["NONE", "AUTO", "FORCE"],
    "AUTO",
    "Whether rows are sent to sinks by primary key.",
)
NOT_NULL = _choice(
    "table.exec.sink.not-null-enforcer",
    ["ERROR", "DROP"],
    "ERROR",
    "What happens to a row with NULL in a NOT NULL column of a sink.",
)
NESTED_CONSTRAINTS = _choice(
    "table.exec.sink.nested-constraint-enforcer",
    ["IGNORE", "ROWS", "ROWS_AND_COLLECTIONS"],
    "IGNORE",
    "Whether NOT NULL is also enforced for fields of ROWs, and for elements of ARRAYs and MAPs.",
)
ROWTIME_INSERTER = _choice(
    "table.exec.sink.rowtime-inserter",
    ["ENABLED", "DISABLED"],
    "ENABLED",
    "Whether the time attribute becomes the timestamp of records at sinks.",
)
DEFAULT_PARALLELISM = _number(
    "table.exec.resource.default-parallelism",
    -1,
    "The parallelism of operators; -1: that of the environment.",
    minimum=-1,
)
UID_GENERATION = _choice(
    "table.exec.uid.generation",
    ["PLAN_ONLY", "ALWAYS", "DISABLED"],
    "PLAN_ONLY",
    "ALWAYS: operators get uids from their position in the plan; otherwise they are identified by their inputs.",
)
ASYNC_CAPACITY = _number(
    "table.exec.async-lookup.buffer-capacity", 100, "Maximum number of pending lookups."
)
ASYNC_TIMEOUT = _duration(
    "table.exec.async-lookup.timeout", 180_000, "Timeout of an asynchronous lookup."
)
ASYNC_OUTPUT = _choice(
    "table.exec.async-lookup.output-mode",
    ["ORDERED", "ALLOW_UNORDERED"],
    "ORDERED",
    "Whether rows leave asynchronous lookups in the order of their arrival.",
)
ASYNC_SCALAR_CAPACITY = describe(
    ConfigOptions.key("table.exec.async-scalar.max-concurrent-operations")
    .int_type()
    .default_value(10),
    "Maximum number of concurrent calls of an asynchronous scalar function.",
    "table.exec.async-scalar.buffer-capacity",
    minimum=1,
)
ASYNC_SCALAR_TIMEOUT = _duration(
    "table.exec.async-scalar.timeout",
    180_000,
    "Timeout of a call of an asynchronous scalar function, including all its attempts.",
)
ASYNC_SCALAR_RETRIES = _choice(
    "table.exec.async-scalar.retry-strategy",
    ["FIXED_DELAY", "NO_RETRY"],
    "FIXED_DELAY",
    "Whether a failed call of an asynchronous scalar function is retried.",
)
ASYNC_SCALAR_DELAY = _duration(
    "table.exec.async-scalar.retry-delay", 100, "Delay before the next attempt."
)
ASYNC_SCALAR_ATTEMPTS = describe(
    ConfigOptions.key("table.exec.async-scalar.max-attempts").int_type().default_value(3),
    "Maximum number of retries of a failed call before the job fails.",
    minimum=1,
)
AGG_PHASE = _choice(
    "table.optimizer.agg-phase-strategy",
    ["AUTO", "TWO_PHASE", "ONE_PHASE"],
    "AUTO",
    "Whether rows are pre-aggregated before the exchange.",
)
DISTINCT_SPLIT = _flag(
    "table.optimizer.distinct-agg.split.enabled",
    False,
    "Whether DISTINCT aggregates are split into two levels, which spreads hot keys.",
)
# Flink's default is 1024. Rows are folded by key and bucket, batch by batch: few buckets spread the load, many would leave nothing to fold.
DISTINCT_BUCKETS = _number(
    "table.optimizer.distinct-agg.split.bucket-num", 16, "The number of buckets of the split."
)
REUSE_SUB_PLANS = _flag(
    "table.optimizer.reuse-sub-plan-enabled",
    True,
    "Whether identical parts of a plan run only once.",
)
PUSH_DOWN = _flag(
    "table.optimizer.source.predicate-pushdown-enabled",
    True,
    "Whether filters are pushed down to sources.",
)
