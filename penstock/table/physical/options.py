"""Options of the planner and of its operators, by Flink's names."""

from __future__ import annotations

import difflib
from typing import Any, Final, TypeVar

from penstock.common.config_options import ConfigOption, ConfigOptions
from penstock.common.time import Duration
from penstock.errors import ConfigurationError

T = TypeVar("T")

OPTIONS: Final[dict[str, ConfigOption[Any]]] = {}


def _known(option: ConfigOption[T], text: str) -> ConfigOption[T]:
    option = option.with_description(text)
    OPTIONS[option.key] = option
    return option


def _duration(key: str, millis: int, text: str) -> ConfigOption[Duration]:
    default = Duration.of_millis(millis)
    return _known(ConfigOptions.key(key).duration_type().default_value(default), text)


def _flag(key: str, default: bool, text: str) -> ConfigOption[bool]:
    return _known(ConfigOptions.key(key).boolean_type().default_value(default), text)


def _choice(key: str, choices: list[str], default: str, text: str) -> ConfigOption[str]:
    return _known(ConfigOptions.key(key).enum_type(choices).default_value(default), text)


def _number(key: str, default: int, text: str) -> ConfigOption[int]:
    return _known(ConfigOptions.key(key).int_type().default_value(default), text)


STATE_TTL = _duration(
    "table.exec.state.ttl", 0, "How long state that nobody writes is kept; 0: forever."
)
IDLE_TIMEOUT = _duration(
    "table.exec.source.idle-timeout",
    0,
    "After which time without records a source no longer holds back watermarks; 0: never.",
)
DUPLICATES = _flag(
    "table.exec.source.cdc-events-duplicate",
    False,
    "Whether change sources may send a change twice: they are normalised by their primary key then.",
)
MATERIALIZE = _choice(
    "table.exec.sink.upsert-materialize",
    ["NONE", "AUTO", "FORCE"],
    "AUTO",
    "Whether rows of a primary key are kept before a sink, so that late changes do not win: AUTO where the query knows its rows by other columns.",
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
TYPE_LENGTH = _choice(
    "table.exec.sink.type-length-enforcer",
    ["IGNORE", "TRIM_PAD", "ERROR"],
    "IGNORE",
    "What happens to values that are longer than the column of a sink.",
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
)
SINK_TTL = _duration(
    "table.exec.rank.topn-cache-ttl", 0, "Accepted: ranks keep what table.exec.state.ttl says."
)
MINI_BATCH = _flag(
    "table.exec.mini-batch.enabled",
    False,
    "Accepted: batches of columns are mini-batches by nature.",
)
MINI_BATCH_LATENCY = _duration(
    "table.exec.mini-batch.allow-latency", 0, "Accepted, see table.exec.mini-batch.enabled."
)
MINI_BATCH_SIZE = _known(
    ConfigOptions.key("table.exec.mini-batch.size").long_type().default_value(-1),
    "Accepted, see table.exec.mini-batch.enabled.",
)
UID_GENERATION = _choice(
    "table.exec.uid.generation",
    ["PLAN_ONLY", "ALWAYS", "DISABLED"],
    "PLAN_ONLY",
    "ALWAYS: operators get uids by their place in the plan; else they are known by what they read.",
)
ASYNC_CAPACITY = _number(
    "table.exec.async-lookup.buffer-capacity", 100, "How many lookups wait at once."
)
ASYNC_TIMEOUT = _duration(
    "table.exec.async-lookup.timeout", 180_000, "After which time an asynchronous lookup fails."
)
ASYNC_OUTPUT = _choice(
    "table.exec.async-lookup.output-mode",
    ["ORDERED", "ALLOW_UNORDERED"],
    "ORDERED",
    "Whether rows leave asynchronous lookups in the order of their arrival.",
)
ASYNC_SCALAR_CAPACITY = _known(
    ConfigOptions.key("table.exec.async-scalar.max-concurrent-operations")
    .int_type()
    .default_value(10)
    .with_deprecated_keys("table.exec.async-scalar.buffer-capacity")
    .with_minimum(1),
    "How many calls of an asynchronous scalar function are under way at once.",
)
ASYNC_SCALAR_TIMEOUT = _duration(
    "table.exec.async-scalar.timeout",
    180_000,
    "After which time a call of an asynchronous scalar function fails, with all its attempts.",
)
ASYNC_SCALAR_RETRIES = _choice(
    "table.exec.async-scalar.retry-strategy",
    ["FIXED_DELAY", "NO_RETRY"],
    "FIXED_DELAY",
    "Whether a call of an asynchronous scalar function that raised an exception is made again.",
)
ASYNC_SCALAR_DELAY = _duration(
    "table.exec.async-scalar.retry-delay", 100, "How long to wait before the next attempt."
)
ASYNC_SCALAR_ATTEMPTS = _known(
    ConfigOptions.key("table.exec.async-scalar.max-attempts")
    .int_type()
    .default_value(3)
    .with_minimum(1),
    "How often a call that failed is made again before the job fails.",
)
AGG_PHASE = _choice(
    "table.optimizer.agg-phase-strategy",
    ["AUTO", "TWO_PHASE", "ONE_PHASE"],
    "AUTO",
    "Whether aggregation has a first phase before the exchange.",
)
DISTINCT_SPLIT = _flag(
    "table.optimizer.distinct-agg.split.enabled",
    False,
    "Whether DISTINCT aggregates are split in two levels, against hot keys.",
)
# Flink's default is 1024. Rows are folded by key and bucket, batch by batch: few buckets spread the load, many would leave nothing to fold.
DISTINCT_BUCKETS = _number(
    "table.optimizer.distinct-agg.split.bucket-num", 16, "The number of buckets of the split."
)
REUSE_SUB_PLANS = _flag(
    "table.optimizer.reuse-sub-plan-enabled", True, "Whether equal parts of a plan run once."
)
REUSE_SOURCES = _flag(
    "table.optimizer.reuse-source-enabled", True, "Whether a table is read once in a plan."
)
PUSH_DOWN = _flag(
    "table.optimizer.source.predicate-pushdown-enabled",
    True,
    "Whether sources are told the conditions that rows must meet.",
)
NON_DETERMINISTIC = _choice(
    "table.optimizer.non-deterministic-update.strategy",
    ["IGNORE", "TRY_RESOLVE"],
    "IGNORE",
    "Accepted: plans with updates and functions that give another value each time are run as written.",
)
# Accepted without effect: what belongs to Flink's own way of running things.
_WITHOUT_EFFECT = (
    "table.dynamic-table-options.enabled", "table.builtin-catalog-name", "table.builtin-database-name",
    "table.column-expansion-strategy", "table.display.max-column-width", "table.dml-sync", "table.generated-code.max-length",
    "table.generated-code.max-members", "table.legacy-nested-row-nullability", "table.local-time-zone", "table.plan.compile.catalog-objects",
    "table.plan.force-recompile", "table.plan.restore.catalog-objects", "table.resources.download-dir", "table.rtas-ctas.atomicity-enabled",
    "table.sql-dialect", "table.exec.async-ml-predict.max-concurrent-operations",
    "table.exec.async-state.enabled", "table.exec.deduplicate.insert-update-after-sensitive-enabled",
    "table.exec.deduplicate.mini-batch.compact-changes-enabled", "table.exec.disabled-operators", "table.exec.interval-join.min-cleanup-interval",
    "table.exec.legacy-cast-behaviour", "table.exec.legacy-transformation-uids", "table.exec.local-hash-agg.adaptive.enabled",
    "table.exec.local-hash-agg.adaptive.distinct-value-rate-threshold", "table.exec.local-hash-agg.adaptive.sampling-threshold",
    "table.exec.operator-fusion-codegen.enabled", "table.exec.sort.async-merge-enabled",
    "table.exec.sort.default-limit", "table.exec.sort.max-num-file-handles", "table.exec.spill-compression.block-size",
    "table.exec.spill-compression.enabled", "table.exec.uid.format", "table.exec.unbounded-over.version",
    "table.exec.window-agg.buffer-size-limit", "table.optimizer.adaptive-broadcast-join.strategy",
    "table.optimizer.bushy-join-reorder-threshold", "table.optimizer.delta-join.strategy", "table.optimizer.dynamic-filtering.enabled",
    "table.optimizer.incremental-agg-enabled", "table.optimizer.join-reorder-enabled", "table.optimizer.join.broadcast-threshold",
    "table.optimizer.multi-join.enabled", "table.optimizer.multiple-input-enabled", "table.optimizer.reuse-optimize-block-with-digest-enabled",
    "table.optimizer.runtime-filter.enabled", "table.optimizer.skewed-join-optimization.strategy",
    "table.optimizer.skewed-join-optimization.skewed-factor", "table.optimizer.skewed-join-optimization.skewed-threshold",
    "table.optimizer.source.aggregate-pushdown-enabled", "table.optimizer.source.report-statistics-enabled",
    "table.optimizer.union-all-as-breakpoint-enabled", "table.optimizer.reuse-sink-enabled",
)  # fmt: skip


def check_option(key: str, value: Any = None) -> None:
    """Refuse an option of tables that is unknown, with the nearest name, or whose value cannot be read.

    >>> check_option("table.exec.state.tll", "1 h")
    Traceback (most recent call last):
    penstock.errors.ConfigurationError: option 'table.exec.state.tll' is unknown
    hint: did you mean table.exec.state.ttl?
    """
    option = OPTIONS.get(key) or _by_deprecated_key(key)
    if option is not None:
        if value is not None:
            option.convert(value, key)
        return
    if key in _WITHOUT_EFFECT:
        return
    near = difflib.get_close_matches(key, [*OPTIONS, *_WITHOUT_EFFECT], n=1, cutoff=0.6)
    raise ConfigurationError(
        f"option '{key}' is unknown", hint=f"did you mean {near[0]}?" if near else None
    )


def _by_deprecated_key(key: str) -> ConfigOption[Any] | None:
    return next((each for each in OPTIONS.values() if key in each.deprecated_keys), None)
