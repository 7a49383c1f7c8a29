"""Calling the user's functions: which method does the work, when they open and close, and what is said when they fail."""

from __future__ import annotations

import concurrent.futures
import itertools
import re
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from penstock.errors import PenstockError

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
