"""Commands of Redis as a mapper gives them: a name and its arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.errors import RecordError

Command = tuple[Any, ...]
_PLAIN = (str, bytes, int, float)


def commands_of(mapped: Any, record: Any) -> list[Command]:
    """Return the commands that a mapper made of a record: none, one or several.

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


def _checked(command: Any, record: Any) -> Command:
    if not isinstance(command, tuple) or not command or not isinstance(command[0], str):
        raise _no_command(command, record)
    for each in command:
        if isinstance(each, bool) or not isinstance(each, _PLAIN):
            raise RecordError(
                f"an argument of {command[0]} is neither text, bytes nor a number",
                detail=f"it is {each!r}, of the record {record!r}",
                hint="let the mapper turn it into text",
            )
    return command


def _no_command(found: Any, record: Any) -> RecordError:
    return RecordError(
        "a mapper made something that is no command",
        detail=f"it is {found!r}, of the record {record!r}",
        hint='return a tuple such as ("SET", key, value), a list of them, or None',
    )


def size_of(command: Command) -> int:
    """Return about how many bytes a command takes."""
    return sum(len(each) if isinstance(each, (str, bytes)) else 8 for each in command)


def show(command: Command) -> str:
    """Return the beginning of a command, for messages."""
    text = " ".join(str(each) for each in command)
    return text if len(text) <= 200 else f"{text[:200]}..."
