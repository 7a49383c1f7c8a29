"""Calling the user's functions: which method does the work, when they open and close, and what is said when they fail."""

from __future__ import annotations

import concurrent.futures
import itertools
import re
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from penstock.errors import POLARS_CONTEXT, PenstockError


class UserCodeError(PenstockError, RuntimeError):
    """The user's function raised. Carries the operator and, where known, the record; `__cause__` is the exception."""

    operator_id: str | None = None
    record_known = False
    record: Any = None


_INLINE: Final = re.compile(r"\*(.+)\$\d+\*")
_KEPT: Final = 16
_failed_calls: dict[str, FunctionFailedError] = {}


class FunctionFailedError(UserCodeError):
    """A function that a query calls raised, see `call_failed`. The operator is added where the error leaves the subtask.

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


def shorten(record: Any, limit: int = 200) -> str:
    """Return the text of a record for a message."""
    try:
        text = repr(record)
    except Exception as error:  # noqa: BLE001 - the user's __repr__ may fail; the first error matters more
        text = f"<{type(record).__name__}, repr failed: {error}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."


# Frames of futures are never the user's: they stand where a thread of ours hands its error on.
_NOT_THE_USERS: Final = (
    f"{Path(__file__).resolve().parents[1]}/",
    f"{Path(concurrent.futures.__file__).parent}/",
)


# Libraries that Penstock calls by itself, or that call the user's code. Behind frames of the user's, theirs tell what the user called.
_STANDARD_LIBRARY: Final = (f"{Path(concurrent.futures.__file__).parents[2]}/", "<frozen ")
_LIBRARIES: Final = re.compile(
    r".*/site-packages/(pyarrow|pandas|numpy|fsspec|s3fs|botocore|sqlalchemy|psycopg|kafka|"
    r"confluent_kafka|redis|fastavro|deltalake|pyiceberg)/.*|(pyarrow|pandas)/.*\.(pyx|pxi)"
)


def is_users(filename: str) -> bool:
    """Whether a frame in this file is the user's, and not one of those that carry his code."""
    return not (
        filename.startswith(_NOT_THE_USERS) or "/cloudpickle/" in filename or "/polars/" in filename
    )


def user_traceback(error: BaseException) -> str:
    """Format an exception, and those that led to it, with the user's frames only.

    An error of ours in which no frame is the user's tells all by itself. Of any other exception without such a frame the last
    one of ours is left, to tell where it came from.
    """
    shown = traceback.TracebackException.from_exception(error)
    parts = [shown]
    while (before := parts[-1].__cause__ or parts[-1].__context__) is not None:
        parts.append(before)
    own = [users_frames(part.stack) for part in parts]
    if isinstance(error, PenstockError) and not any(own):
        return f"{error}\n"
    for part, frames in zip(parts, own, strict=True):
        is_ours = part.exc_type is not None and issubclass(part.exc_type, PenstockError)
        left = frames or ([] if is_ours else part.stack[-1:])
        part.stack = traceback.StackSummary.from_list(left) if left else None  # type: ignore[assignment]
    return "".join(shown.format())


def users_frames(stack: Iterable[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Return the frames of the user's code, and of the libraries that it called."""
    frames = (frame for frame in stack if is_users(frame.filename))
    return list(itertools.dropwhile(lambda each: _is_library(each.filename), frames))


def _is_library(filename: str) -> bool:
    if filename.startswith(_STANDARD_LIBRARY):
        return "/site-packages/" not in filename
    return _LIBRARIES.fullmatch(filename) is not None


def method_of(function: Any, name: str) -> Callable[..., Any]:
    """Return the method that does the work of a user function: `function.<name>`, or the callable itself."""
    method: Callable[..., Any] | None = getattr(function, name, None)
    return method if callable(method) else function


def is_checkpointed(function: Any) -> bool:
    """Whether a user function has both methods of a CheckpointedFunction."""
    return all(
        callable(getattr(function, method, None))
        for method in ("initialize_state", "snapshot_state")
    )


def open_function(function: Any, runtime_context: Any) -> None:
    """Restore the function's state if it keeps any by itself, then call its `open` if it has one."""
    if is_checkpointed(function):
        runtime_context.initialize_function(function)
    opener = getattr(function, "open", None)
    if callable(opener):
        opener(runtime_context)


def close_functions(functions: Sequence[Any]) -> None:
    """Call `close` of each function that has one."""
    for function in functions:
        closer = getattr(function, "close", None)
        if callable(closer):
            closer()


class RecordFailedError(Exception):
    """User code raised on one record of many; `cause` is what it raised."""

    def __init__(self, cause: Exception, record: Any) -> None:
        super().__init__(cause, record)
        self.cause = cause
        self.record = record


def call_each(call: Callable[..., Any], values: list[Any], *columns: Iterable[Any]) -> list[Any]:
    """Return what a user's function returns for each record; raises RecordFailedError.

    A StopIteration of the user's function would end `map` as if there were no more records.
    """
    iterator = iter(values)
    try:
        results = list(map(call, iterator, *columns))
        if len(results) != len(values):
            raise RuntimeError("the function raised StopIteration")
    except Exception as error:
        raise RecordFailedError(
            error, values[position_of_failure(iterator, len(values))]
        ) from error
    return results


def position_of_failure(iterator: Any, total: int) -> int:
    """Return the index of the record that a list iterator handed out last."""
    remaining: int = iterator.__length_hint__()
    return total - remaining - 1
