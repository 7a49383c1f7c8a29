"""Options of tables: which ones a connector knows, and their values."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import ConfigurationError, PenstockError
from penstock.options.config_values import (
    format_duration,
    format_memory,
    parse_duration,
    parse_memory,
)
from penstock.options.option_checks import log_once
from penstock.time.durations import Duration


def _boolean(text: str) -> bool:
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    raise ValueError(f"'{text}' is neither 'true' nor 'false'")


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"'{text}' is not an integer") from None


def _duration_ms(text: str) -> int:
    return parse_duration(text).to_millis()


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a connector or format: the planner checks it, `penstock sql` completes it, and docs/reference/sql-connectors.md shows it.

    `kind`: how its text becomes a value; `choices`: the valid texts, if restricted; `suggestions`: texts that are completed,
    where others are valid, too. An option of Flink without effect in Penstock has the reason in `no_effect`, which is logged as
    a warning when the option is set.
    """

    name: str
    description: str
    kind: Callable[[str], Any] = str
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    suggestions: Callable[[], Iterable[str]] = tuple
    no_effect: str = ""

    def value(self, text: str, table: str) -> Any:
        """Return the value that a text stands for."""
        if self.choices and text.lower() not in self.choices:
            raise ConfigurationError(
                f"table {table}: invalid value '{text}' for option '{self.name}'",
                hint=f"valid values are {', '.join(self.choices)}",
            )
        try:
            return self.kind(text.lower() if self.choices else text)
        except (PenstockError, ValueError) as error:
            raise ConfigurationError(
                f"table {table}: invalid value '{text}' for option '{self.name}'", detail=str(error)
            ) from error

    @property
    def type(self) -> str:
        """The name of the type of its values.

        >>> flag("loud", "Print more.").type, text("mode", "Mode.", choices=("a", "b")).type
        ('Boolean', 'Enum')
        """
        return "Enum" if self.choices else _TYPES.get(self.kind, "String")

    @property
    def default_text(self) -> str:
        """The default as one writes it in WITH (...); empty if there is none."""
        if self.default is None:
            return ""
        if self.kind is _duration_ms:
            return format_duration(Duration.of_millis(self.default))
        if self.kind is parse_memory:
            return format_memory(self.default)
        return str(self.default).lower() if self.kind is _boolean else str(self.default)


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """Options whose names begin with a prefix; `#` in it stands for a name, such as that of a column.

    Without `options`, another system determines which ones there are, such as the client of a database.
    """

    prefix: str
    description: str
    options: tuple[Option, ...] = ()


_TYPES: Final[dict[Callable[[str], Any], str]] = {
    _boolean: "Boolean",
    _whole_number: "Integer",
    _duration_ms: "Duration",
    parse_memory: "MemorySize",
    float: "Double",
}


def text(name: str, description: str, *, default: str | None = None, **more: Any) -> Option:
    """Return an option that is a text."""
    return Option(name, description, str, default, **more)


def flag(name: str, description: str, *, default: bool = False, **more: Any) -> Option:
    """Return an option that is true or false."""
    return Option(name, description, _boolean, default, **more)


def number(name: str, description: str, *, default: int | None = None, **more: Any) -> Option:
    """Return an option that is a whole number."""
    return Option(name, description, _whole_number, default, **more)


def duration(name: str, description: str, *, default_ms: int | None = None, **more: Any) -> Option:
    """Return an option that is a time span, in milliseconds."""
    return Option(name, description, _duration_ms, default_ms, **more)


def memory(name: str, description: str, *, default: int | None = None) -> Option:
    """Return an option that is an amount of memory, in bytes."""
    return Option(name, description, parse_memory, default)


def checked(
    given: Mapping[str, str],
    known: Iterable[Option],
    table: str,
    *,
    free: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return the values of all known options; refuse unknown ones, and missing ones that are required.

    `free`: prefixes of options that others check, such as those of a format.
    """
    by_name = {each.name: each for each in known}
    for name in given:
        if name not in by_name and name != "connector" and not name.startswith(free):
            raise _unknown(name, by_name, table)
    missing = [each.name for each in by_name.values() if each.required and each.name not in given]
    if missing:
        raise ConfigurationError(
            f"table {table} is missing option '{missing[0]}'",
            hint=f"add it to WITH (...): '{missing[0]}' = '...'",
        )
    values = {
        name: each.value(given[name], table) if name in given else each.default
        for name, each in by_name.items()
    }
    for name, each in by_name.items():
        if each.no_effect and values[name] != each.default:
            log_once(f"table {table}: option '{name}' has no effect: {each.no_effect}")
    return values


def _unknown(name: str, known: Mapping[str, Option], table: str) -> ConfigurationError:
    near = difflib.get_close_matches(name, known, 1)
    return ConfigurationError(
        f"table {table} has unknown option '{name}'",
        detail=f"known options: {', '.join(sorted(known))}",
        hint=f"did you mean '{near[0]}'?" if near else None,
    )
