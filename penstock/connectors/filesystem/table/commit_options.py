"""Options for committing the partitions of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.connectors.filesystem.table.partition_times import (
    PartitionTimes,
    wrong_formatter,
    wrong_pattern,
)
from penstock.connectors.filesystem.table.partitions import CommitTrigger
from penstock.errors import ArgumentError, ConfigurationError
from penstock.sql.connector.providers import TableContext
from penstock.time.zones import checked_zone

BY_WATERMARK: Final = "'sink.partition-commit.trigger' = 'partition-time'"
_TRIGGER: Final = "sink.partition-commit.trigger"
_POLICY: Final = "sink.partition-commit.policy.kind"
_ZONE: Final = "sink.partition-commit.watermark-time-zone"
_KIND: Final = "partition.time-extractor.kind"
_PATTERN: Final = "partition.time-extractor.timestamp-pattern"
_FORMATTER: Final = "partition.time-extractor.timestamp-formatter"
# Values that Flink supports and Penstock does not, with the reason.
_OTHERS: Final = {
    (_POLICY, "metastore"): "filesystem tables are not registered in a metastore",
    (_POLICY, "custom"): "custom policies are Java classes, which cannot be loaded",
    (_KIND, "custom"): "custom extractors are Java classes, which cannot be loaded",
}


def commit_trigger(context: TableContext, options: Mapping[str, Any]) -> CommitTrigger | None:
    """Return when partitions are committed, None if there is no commit policy; reject contradictory options."""
    name = str(context.table.path)
    kinds = [each.strip() for each in (options[_POLICY] or "").split(",") if each.strip()]
    for kind in kinds:
        _check(name, _POLICY, kind, ("success-file",))
    _check(name, _TRIGGER, options[_TRIGGER], ("process-time", "partition-time"))
    _check(name, _KIND, options[_KIND], ("default",))
    times = None
    if options[_TRIGGER] == "partition-time":
        times = _partition_times(name, tuple(context.table.partition_keys), options)
    if not kinds or not context.table.partition_keys:
        return None
    if context.batch:
        return CommitTrigger(at_end=True)
    return CommitTrigger(options["sink.partition-commit.delay"], times)


def _partition_times(
    name: str, keys: tuple[str, ...], options: Mapping[str, Any]
) -> PartitionTimes:
    if not keys:
        raise ConfigurationError(
            f"table {name}: {BY_WATERMARK} needs a partitioned table",
            detail="the table has no PARTITIONED BY",
            hint=f"add PARTITIONED BY (...), or remove '{_TRIGGER}'",
        )
    pattern, formatter = options[_PATTERN], options[_FORMATTER]
    if pattern is not None and (wrong := wrong_pattern(pattern, keys)) is not None:
        columns = ", ".join(f"${each}" for each in keys)
        raise _refused(
            name,
            _PATTERN,
            pattern,
            wrong,
            f"refer to columns as {columns}, such as '${keys[0]} 00:00:00'",
        )
    if formatter is not None and (wrong := wrong_formatter(formatter)) is not None:
        raise _refused(
            name, _FORMATTER, formatter, wrong, "use a Java pattern, such as 'yyyyMMdd HH:mm:ss'"
        )
    try:
        zone = checked_zone(options[_ZONE])
    except ArgumentError as error:
        raise _refused(name, _ZONE, options[_ZONE], error.message, error.hint) from error
    return PartitionTimes(keys, pattern, formatter, zone)


def _check(name: str, option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        reason = _OTHERS.get((option, value))
        hint = (
            f"the valid value is {known[0]}"
            if len(known) == 1
            else f"valid values are {', '.join(known)}"
        )
        raise _refused(name, option, value, reason, hint)


def _refused(
    name: str, option: str, value: str, reason: str | None, hint: str | None
) -> ConfigurationError:
    return ConfigurationError(
        f"table {name}: invalid value '{value}' for option '{option}'", detail=reason, hint=hint
    )
