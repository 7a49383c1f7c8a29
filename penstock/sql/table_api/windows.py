"""Windows of the Table API: groups of rows by time, and ranges of rows around each row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import ArgumentError, ArgumentTypeError, UnsupportedOperationError
from penstock.sql.table_api.expression import (
    ColumnExpression,
    Expression,
    RowCountExpression,
    as_expression,
)


@dataclass(frozen=True, slots=True, eq=False)
class GroupWindow:
    """A window that rows are grouped by: its kind, its sizes, its time, its name."""

    kind: str
    sizes: tuple[Expression, ...]
    time: Expression | None = None
    name: str | None = None

    def on(self, time_field: Expression) -> GroupWindow:
        """Say which time counts: a column that is a time attribute."""
        return replace(self, time=as_expression(time_field))

    def alias(self, alias: str) -> GroupWindow:
        """Name the window, so that group_by and select can speak of it."""
        return replace(self, name=alias)


@dataclass(frozen=True, slots=True, eq=False)
class SlideWithSize:
    """A sliding window that still needs its slide."""

    size: Expression

    def every(self, slide: Expression) -> GroupWindow:
        """Say how often a window begins."""
        return GroupWindow("HOP", (_interval(slide), self.size))


class Tumble:
    """Windows one after another, without gaps: Tumble.over(lit(10).minutes).on(col("rowtime")).alias("w")."""

    @classmethod
    def over(cls, size: Expression) -> GroupWindow:
        """Say how long windows are."""
        return GroupWindow("TUMBLE", (_interval(size),))


class Slide:
    """Windows that overlap: Slide.over(lit(10).minutes).every(lit(5).minutes).on(col("rowtime")).alias("w")."""

    @classmethod
    def over(cls, size: Expression) -> SlideWithSize:
        """Say how long windows are."""
        return SlideWithSize(_interval(size))


class Session:
    """Windows that end when nothing comes for a while: Session.with_gap(lit(10).minutes).on(col("rowtime")).alias("w")."""

    @classmethod
    def with_gap(cls, gap: Expression) -> GroupWindow:
        """Say how long nothing may come."""
        return GroupWindow("SESSION", (_interval(gap),))


def _interval(size: Any) -> Expression:
    if isinstance(size, RowCountExpression):
        raise UnsupportedOperationError(
            "count windows are not implemented for tables",
            hint="use an interval of time, or count_window of a keyed DataStream",
        )
    if not isinstance(size, Expression):
        raise ArgumentTypeError(
            f"{size!r} is not an interval", hint="write lit(10).minutes or a similar expression"
        )
    return size


@dataclass(frozen=True, slots=True, eq=False)
class OverWindow:
    """A range of rows around each row."""

    partition: tuple[Expression, ...] = ()
    order: Expression | None = None
    lower: Expression | None = None
    upper: Expression | None = None
    name: str | None = None

    def preceding(self, preceding: Expression) -> OverWindow:
        """Say where the range begins: an interval, row_interval(n), UNBOUNDED_ROW or UNBOUNDED_RANGE."""
        return replace(self, lower=preceding)

    def following(self, following: Expression) -> OverWindow:
        """Say where the range ends: CURRENT_ROW or CURRENT_RANGE."""
        return replace(self, upper=following)

    def alias(self, alias: Any) -> OverWindow:
        """Name the window, so that select can speak of it."""
        return replace(self, name=alias.name if isinstance(alias, ColumnExpression) else str(alias))

    def sql(self, scope: Any) -> str:
        """Return what stands in OVER (...)."""
        if self.order is None:
            raise ArgumentError("an over window needs order_by")
        parts = []
        if self.partition:
            parts.append(f"PARTITION BY {', '.join(each.sql(scope) for each in self.partition)}")
        parts.append(f"ORDER BY {self.order.sql(scope)}")
        lower = RowCountExpression(None, by_rows=False) if self.lower is None else self.lower
        by_rows = isinstance(lower, RowCountExpression) and lower.by_rows
        bound = lower.sql(scope)
        if self.upper is not None and not (
            isinstance(self.upper, RowCountExpression) and self.upper.count == 0
        ):
            raise UnsupportedOperationError(
                "over windows must end at the current row", hint="remove following()"
            )
        parts.append(f"{'ROWS' if by_rows else 'RANGE'} BETWEEN {bound} PRECEDING AND CURRENT ROW")
        return " ".join(parts)


class Over:
    """Ranges of rows: Over.partition_by(col("a")).order_by(col("rowtime")).preceding(UNBOUNDED_RANGE).alias("w")."""

    @classmethod
    def partition_by(cls, *partition_by: Expression) -> OverWindowPartitioned:
        """Say which rows belong together."""
        return OverWindowPartitioned(partition_by)

    @classmethod
    def order_by(cls, order_by: Expression) -> OverWindow:
        """Say which time orders the rows; all belong together."""
        return OverWindow((), order_by)


@dataclass(frozen=True, slots=True, eq=False)
class OverWindowPartitioned:
    """An over window that still needs its order."""

    partition: tuple[Expression, ...]

    def order_by(self, order_by: Expression) -> OverWindow:
        """Say which time orders the rows."""
        return OverWindow(self.partition, order_by)


__all__ = ["GroupWindow", "Over", "OverWindow", "Session", "Slide", "Tumble"]
