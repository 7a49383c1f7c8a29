"""`scan.watermark.*`: how a table's source emits the watermarks that are declared for it. Any connector that is read takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.common import Duration, WatermarkStrategy
from penstock.common.watermark_strategy import NoWatermarks
from penstock.errors import ConfigurationError
from penstock.sql.connector.options import (
    Option,
    checked,
    duration,
    number,
    text,
)

PREFIX: Final = "scan.watermark."
_STRATEGY: Final = "scan.watermark.emit.strategy"
_GAP: Final = "scan.watermark.emit.on-event.gap"
_GROUP: Final = "scan.watermark.alignment.group"
_DRIFT: Final = "scan.watermark.alignment.max-drift"
_INTERVAL: Final = "scan.watermark.alignment.update-interval"
_IDLE: Final = "scan.watermark.idle-timeout"
WATERMARK_OPTIONS: Final[tuple[Option, ...]] = (
    text(
        _STRATEGY,
        "When watermarks are emitted: periodically, or after rows.",
        default="on-periodic",
        choices=("on-periodic", "on-event"),
    ),
    number(
        _GAP, "Number of rows of a split between watermarks that are emitted on events.", default=1
    ),
    text(_GROUP, "Group of sources whose watermarks are aligned."),
    duration(_DRIFT, "How far a source may be ahead of the slowest one of its group."),
    duration(_INTERVAL, "How often the watermarks of a group are compared.", default_ms=1000),
    duration(
        _IDLE,
        "Time without rows after which a split is idle; 0: never. The default is 'table.exec.source.idle-timeout'.",
    ),
)


@dataclass(frozen=True, slots=True)
class WatermarkOptions:
    """The watermark options of one table. `gap`: a watermark is emitted after every `gap` rows of a split; None: periodically."""

    gap: int | None = None
    idle_timeout_ms: int | None = None  # 0: splits are never idle; None: as the session says
    watermark_alignment: tuple[str, int, int] | None = (
        None  # group, drift and interval in milliseconds
    )

    def strategy(self, default_idle_ms: int) -> WatermarkStrategy:
        """Return when splits are idle and which sources they wait for; `default_idle_ms` is `table.exec.source.idle-timeout`.

        The source operator computes the watermarks themselves from columns.
        """
        strategy = WatermarkStrategy.for_generator(NoWatermarks)
        idle_ms = self._idle_ms(default_idle_ms)
        if idle_ms:
            strategy = strategy.with_idleness(Duration.of_millis(idle_ms))
        if self.watermark_alignment is not None:
            group, drift, interval = self.watermark_alignment
            strategy = strategy.with_watermark_alignment(
                group, Duration.of_millis(drift), Duration.of_millis(interval)
            )
        return strategy

    def _idle_ms(self, default_idle_ms: int) -> int:
        return default_idle_ms if self.idle_timeout_ms is None else self.idle_timeout_ms

    def shown(self, default_idle_ms: int) -> list[str]:
        """Return the texts that EXPLAIN shows after the watermark."""
        idle_ms = self._idle_ms(default_idle_ms)
        parts = [f"idletimeout=[{idle_ms}]"] if idle_ms else []
        if self.gap is None:
            parts.append("watermarkEmitStrategy=[on-periodic]")
        else:
            parts.append(f"watermarkEmitStrategy=[on-event], gap=[{self.gap}]")
        if self.watermark_alignment is not None:
            group, drift, interval = self.watermark_alignment
            parts.append(f"watermarkAlignment=[{group}, {drift} ms, {interval} ms]")
        return parts


def without_watermark_options(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are the connector's own."""
    return {name: value for name, value in given.items() if not name.startswith(PREFIX)}


def watermark_options(given: Mapping[str, str], table: str) -> WatermarkOptions:
    """Parse the watermark options of a table; reject unknown ones and invalid values.

    >>> watermark_options({"scan.watermark.emit.strategy": "on-event", "topic": "t"}, "t").gap
    1
    """
    own = {name: value for name, value in given.items() if name.startswith(PREFIX)}
    values = checked(own, WATERMARK_OPTIONS, table)
    if values[_GAP] < 1:
        raise ConfigurationError(
            f"table {table}: invalid value '{own[_GAP]}' for option '{_GAP}'",
            detail="it must be a number of rows, at least 1",
        )
    for name in (_DRIFT, _INTERVAL, _IDLE):
        if values[name] is not None and values[name] < (1 if name == _INTERVAL else 0):
            raise ConfigurationError(
                f"table {table}: invalid value '{own[name]}' for option '{name}'"
            )
    return WatermarkOptions(
        gap=values[_GAP] if values[_STRATEGY] == "on-event" else None,
        idle_timeout_ms=values[_IDLE],
        watermark_alignment=_watermark_alignment(own, values, table),
    )


def _watermark_alignment(
    own: Mapping[str, str], values: Mapping[str, Any], table: str
) -> tuple[str, int, int] | None:
    if not own.keys() & {_GROUP, _DRIFT, _INTERVAL}:
        return None
    if not values[_GROUP] or values[_DRIFT] is None:
        raise ConfigurationError(
            f"table {table}: '{_GROUP}' and '{_DRIFT}' must be set to align watermarks",
            detail=f"set options: {', '.join(sorted(own.keys() & {_GROUP, _DRIFT, _INTERVAL}))}",
        )
    return values[_GROUP], values[_DRIFT], values[_INTERVAL]
