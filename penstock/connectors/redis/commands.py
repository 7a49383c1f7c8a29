"""Redis commands as returned by a mapper: a name and its arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.common.user_types import Record
from penstock.errors import RecordError

Command = tuple[Any, ...]
_PLAIN = (str, bytes, int, float)


def commands_of(mapped: object, record: object) -> list[Command]:
    """Return the commands of a mapper's result for a record: none, one or several.

    >>> commands_of(("SET", "a", 1), None)
    [('SET', 'a', 1)]
    >>> commands_of([("INCR", "n"), ("EXPIRE", "n", 60)], None)
    [('INCR', 'n'), ('EXPIRE', 'n', 60)]
    """
    if mapped is None:
        return []
    if isinstance(mapped, tuple) and mapped and isinstance(mapped[0], str):
        return [_checked(mapped, record)]
    if isinstance(mapped, Iterable) and not isinstance(mapped, (str, bytes)):
        return [_checked(each, record) for each in mapped]
    raise _no_command(mapped, record)


def _checked(command: Any, record: Record) -> Command:
    if not isinstance(command, tuple) or not command or not isinstance(command[0], str):
        raise _no_command(command, record)
    for each in command:
        if isinstance(each, bool) or not isinstance(each, _PLAIN):
            raise RecordError(
                f"an argument of {command[0]} is not a str, bytes or a number",
                detail=f"got {each!r} for the record {record!r}",
                hint="convert it to str in the mapper",
            )
    return command


def _no_command(found: object, record: object) -> RecordError:
    return RecordError(
        "a mapper returned something other than a command",
        detail=f"got {found!r} for the record {record!r}",
        hint='return a tuple such as ("SET", key, value), a list of them, or None',
    )


def size_of(command: Command) -> int:
    """Return the approximate size of a command in bytes."""
    return sum(len(each) if isinstance(each, (str, bytes)) else 8 for each in command)


def show(command: Command) -> str:
    """Return the start of a command, for messages."""
    text = " ".join(str(each) for each in command)
    return text if len(text) <= 200 else f"{text[:200]}..."
