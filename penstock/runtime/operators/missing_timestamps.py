"""Errors for records without timestamps in event-time operators."""

from __future__ import annotations

from typing import Any

from penstock.errors import MissingTimestampError
from penstock.errors.user_errors import shorten
from penstock.runtime.operators.base import OperatorContext
from penstock.runtime.records import MIN_WATERMARK, RowBatch


def lowest_timestamp(
    batch: RowBatch, context: OperatorContext, what: str = "an event-time window"
) -> int:
    """Return the lowest timestamp of a non-empty batch; reject a record without one."""
    timestamps: Any = batch.timestamps
    try:
        lowest: int = min(timestamps) + 0
    except TypeError:  # None instead of the list, or in it
        lowest = MIN_WATERMARK
    if lowest == MIN_WATERMARK:
        raise missing_timestamp(context, first_untimed(batch), what)
    return lowest


def first_untimed(batch: RowBatch) -> object:
    """Return the first record of a batch that has no timestamp; there must be one."""
    times = batch.timestamps
    if times is None:
        return batch.values[0]
    return next(
        value
        for value, time in zip(batch.values, times, strict=True)
        if time is None or time == MIN_WATERMARK
    )


def missing_timestamp(
    context: OperatorContext, record: object, what: str = "an event-time window"
) -> MissingTimestampError:
    """Return the error for a record without a timestamp. It names the operators that emitted it."""
    detail = (
        f"in operator '{context.operator_name}', subtask {context.subtask + 1} of {context.parallelism}, "
        f"record {shorten(record)}"
    )
    if context.untimed_inputs is not None:
        detail = f"{context.untimed_inputs}; {detail}"
    return MissingTimestampError(
        f"a record without a timestamp reached {what}",
        detail=detail,
        hint="call assign_timestamps_and_watermarks(...) on that stream, with a strategy that has a timestamp assigner",
    )
