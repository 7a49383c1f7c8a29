"""The failures of users' functions: which function or operator, which record, in a few words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from penstock.errors import POLARS_CONTEXT, PenstockError


class UserCodeError(PenstockError, RuntimeError):
    """A function of the user raised an exception. The error names the operator and, where known, the record; `__cause__` is the exception."""

    operator_id: str | None = None
    record_known = False
    record: Any = None


_INLINE: Final = re.compile(r"\*(.+)\$\d+\*")
_KEPT: Final = 16
_failed_calls: dict[str, FunctionFailedError] = {}


class FunctionFailedError(UserCodeError):
    """A function that a query calls raised an exception, see `call_failed`. The operator is added where the error leaves the subtask.

    `position` is the row in the columns that the call was evaluated over, where it is known.

    Polars raises errors from inside of expressions again, made of their text alone and with the expression behind it. Such a copy becomes what the
    error was.
    """

    position: int | None = None

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        own, copied, _ = message.partition(POLARS_CONTEXT)
        original = _failed_calls.get(own) if copied else None
        if original is None:
            super().__init__(own, detail=detail, hint=hint)
            return
        super().__init__(original.message, detail=original.detail, hint=original.hint)
        self.position = original.position
        self.record_known, self.record = original.record_known, original.record
        self.__cause__ = original.__cause__


def call_failed(
    function: str,
    error: Exception,
    operands: Sequence[Any] | None = None,
    *,
    method: str | None = None,
    position: int | None = None,
) -> FunctionFailedError:
    """Return what is reported when a call of a query's function raises.

    `operands` are those of the call, `method` is the one of a class that failed.

    >>> print(call_failed("parse", ValueError("no number"), ("3x",)))
    ValueError: no number
    detail: in function parse('3x')
    """
    call = shown_name(function) + ("" if method is None else f".{method}")
    shown = "" if operands is None else f"({shorten_all(operands)})"
    failed = FunctionFailedError(
        f"{type(error).__name__}: {error}", detail=f"in function {call}{shown}"
    )
    failed.__cause__ = error
    failed.position = position
    if operands is not None:
        failed.record_known, failed.record = True, tuple(operands)
    _failed_calls[str(failed)] = failed
    while len(_failed_calls) > _KEPT:
        forget_call(_failed_calls[next(iter(_failed_calls))])
    return failed


def shown_name(function: str) -> str:
    """Return what the user calls a function. One that is used without being registered has a name like `*parse$0*`.

    >>> shown_name("*parse$0*"), shown_name("parse")
    ('parse', 'parse')
    """
    inline = _INLINE.fullmatch(function)
    return function if inline is None else inline[1]


def forget_call(failed: FunctionFailedError) -> None:
    """Let go of a failure that has left Polars, and of the rows that its traceback holds."""
    _failed_calls.pop(str(failed), None)


def shorten_all(values: Sequence[Any], limit: int = 200) -> str:
    """Return the texts of the operands of a call for a message.

    >>> shorten_all((1, "a"))
    "1, 'a'"
    """
    text = ", ".join(shorten(each, limit) for each in values)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def shorten(record: object, limit: int = 200) -> str:
    """Return the text of a record for a message."""
    try:
        text = repr(record)
    except Exception as error:  # noqa: BLE001 - the user's __repr__ may fail; the first error matters more
        text = f"<{type(record).__name__}, repr failed: {error}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."
