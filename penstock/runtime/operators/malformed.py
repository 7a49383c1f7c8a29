"""What becomes of what a source finds and cannot make a record of: the job fails, or it goes to a side output."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.common.dead_letter import DeadLetter
from penstock.connectors.source import MalformedRecord
from penstock.errors import RecordError
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.records import RowBatch
from penstock.runtime.user_code import shorten


def put_aside(operator: StreamOperator, found: Sequence[MalformedRecord]) -> None:
    """Send them to the side output of the operator's `error_tag`; without one, raise."""
    tag = operator.spec.error_tag
    context = operator.context
    if tag is None:
        raise refusal(found[0], context.operator_name)
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


def refusal(record: MalformedRecord, operator: str) -> RecordError:
    """Return the error that says what was found, where, and what can be done."""
    where = ", ".join(f"{name} {value}" for name, value in record.origin.items())
    return RecordError(
        f"the source '{operator}' cannot read what it found" + (f" at {where}" if where else ""),
        detail=f"{record.error_type}: {record.message}; it is {shorten(record.data)}",
        hint='to go on without such records, send them to a side output: stream.on_error(OutputTag("dead letters"))',
    )
