"""Calls the user's functions: finds the method, opens and closes them, and filters tracebacks."""

from __future__ import annotations

import concurrent.futures
import itertools
import re
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from penstock.common.user_types import Record
from penstock.errors import PenstockError

# Frames of futures are never the user's: they appear where a thread of Penstock passes its error on.
_NOT_THE_USERS: Final = (
    f"{Path(__file__).resolve().parents[1]}/",
    f"{Path(concurrent.futures.__file__).parent}/",
)


# Libraries that Penstock calls, or that call user code. Their frames are shown only below frames of user code.
_STANDARD_LIBRARY: Final = (f"{Path(concurrent.futures.__file__).parents[2]}/", "<frozen ")
_LIBRARIES: Final = re.compile(
    r".*/site-packages/(pyarrow|pandas|numpy|fsspec|s3fs|botocore|sqlalchemy|psycopg|kafka|"
    r"confluent_kafka|redis|fastavro|deltalake|pyiceberg)/.*|(pyarrow|pandas)/.*\.(pyx|pxi)"
)


def is_user_code(filename: str) -> bool:
    """Whether a frame in this file is user code, not code around it."""
    return not (
        filename.startswith(_NOT_THE_USERS) or "/cloudpickle/" in filename or "/polars/" in filename
    )


def user_traceback(error: BaseException) -> str:
    """Format an exception and its causes, with the frames of user code only.

    Penstock's own errors without such a frame need none. Of any other exception without such a frame the last one of Penstock
    is kept, to show its origin.
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
    """Return the frames of user code, and of the libraries that it called."""
    frames = (frame for frame in stack if is_user_code(frame.filename))
    return list(itertools.dropwhile(lambda each: _is_library(each.filename), frames))


def _is_library(filename: str) -> bool:
    if filename.startswith(_STANDARD_LIBRARY):
        return "/site-packages/" not in filename
    return _LIBRARIES.fullmatch(filename) is not None


def method_of(function: Any, name: str) -> Callable[..., Any]:
    """Return the method of a user function that does the work: `function.<name>`, or the callable itself."""
    method: Callable[..., Any] | None = getattr(function, name, None)
    return method if callable(method) else function


def is_checkpointed(function: object) -> bool:
    """Whether a user function has both methods of a CheckpointedFunction."""
    return all(
        callable(getattr(function, method, None))
        for method in ("initialize_state", "snapshot_state")
    )


def open_function(function: object, runtime_context: Any) -> None:
    """Restore the state of a CheckpointedFunction, then call `open` if the function has it."""
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
    """User code raised on one record of many; `cause` is the exception."""

    def __init__(self, cause: Exception, record: Record) -> None:
        super().__init__(cause, record)
        self.cause = cause
        self.record = record


def call_each(call: Callable[..., Any], values: list[Any], *columns: Iterable[Any]) -> list[Any]:
    """Return the results of a user's function for each record; raises RecordFailedError.

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
    """Return the index of the record that a list iterator returned last."""
    remaining: int = iterator.__length_hint__()
    return total - remaining - 1
