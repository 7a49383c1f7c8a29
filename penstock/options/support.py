"""How far an option is supported, with a note."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from penstock.options.support_rules import (
    BEHAVES_AS,
    DIFFERENT,
    NO_MEANING,
    REFUSED,
    UNSUPPORTED,
)


class Support(enum.Enum):
    """The classes of options; the value of the member is how commands and pages call it."""

    WORKS = "works"
    DIFFERENT = "works differently"
    NO_MEANING = "has no meaning here"
    UNSUPPORTED = "not supported"
    REFUSED = "not supported, refused"


@dataclass(frozen=True, slots=True)
class OptionRule:
    """The class of an option, with one line about it; `behaves_as` is the value that Penstock behaves by, if that is not the default."""

    support: Support
    note: str = ""
    behaves_as: str | None = None


_TABLES: Final = (
    (Support.DIFFERENT, DIFFERENT),
    (Support.REFUSED, REFUSED),
    (Support.UNSUPPORTED, UNSUPPORTED),
    (Support.NO_MEANING, NO_MEANING),
)
_WORKS: Final = OptionRule(Support.WORKS)


def rule_of(key: str, *, defined: bool) -> OptionRule:
    """Return the rule for a key of the list. What is `defined` in this package works, unless a rule names its very key.

    >>> rule_of("pekko.ask.timeout", defined=False).support.value
    'has no meaning here'
    >>> rule_of("taskmanager.memory.segment-size", defined=True).support.value
    'works'
    """
    for pattern in (key,) if defined else _patterns(key):
        for support, table in _TABLES:
            if pattern in table:
                return OptionRule(support, table[pattern], BEHAVES_AS.get(key))
    if defined:
        return _WORKS
    raise LookupError(f"no rule says how far option '{key}' is supported")


def _patterns(key: str) -> list[str]:
    """Return what may stand for a key in a rule, the closest first."""
    parts = key.split(".")
    prefixes = (".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
    return [key, *(f"{prefix}.*" for prefix in prefixes)]
