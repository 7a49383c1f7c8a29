"""Handles malformed input of a source: the job fails, or it goes to a side output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.connectors.base.source import MalformedRecord
from penstock.errors import RecordError
from penstock.errors.user_errors import shorten
from penstock.records.dead_letter import DeadLetter
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.records import RowBatch

_SIDE_OUTPUT: Final = 'to continue without such records, send them to a side output: stream.on_error(OutputTag("dead letters"))'


def route_malformed(operator: StreamOperator, found: Sequence[MalformedRecord]) -> None:
    """Send malformed records to the side output of the operator's `error_tag`; without one, raise."""
    tag = operator.spec.error_tag
    context = operator.context
    if tag is None:
        raise refusal(found[0], context.operator_name, operator.spec.table)
    context.runtime_context.get_metrics_group().counter("numDeadLetters").inc(len(found))
    letters = [
        DeadLetter(
            record=each.data,
            timestamp=each.timestamp,
            error_type=each.error_type,
            message=each.message,
            traceback="",
            operator=context.operator_name,
            origin=each.origin,
        )
        for each in found
    ]
    operator.output.emit_side(tag, RowBatch(letters, [letter.timestamp for letter in letters]))


def refusal(record: MalformedRecord, operator: str, table: str | None = None) -> RecordError:
    """Return the error with the problem, its location and a remedy. Only programs have side outputs: a `table` has options."""
    where = ", ".join(f"{name} {value}" for name, value in record.origin.items())
    reason = record.reason or f"{record.error_type}: {record.message}"
    if table is not None:
        return RecordError(
            f"table {table}: {reason}",
            detail=(f"at {where}: " if where else "") + shorten(record.data),
            hint=record.hint,
        )
    hints = [] if record.hint is None else [record.hint]
    return RecordError(
        f"the source '{operator}' read a malformed record" + (f" at {where}" if where else ""),
        detail=f"{reason}; the data is {shorten(record.data)}",
        hint="; or: ".join([*hints, _SIDE_OUTPUT]),
    )
