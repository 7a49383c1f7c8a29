"""The options that Flink has, from the list that tools/gen_flink_options.py makes of its jars.

The list is read when a key is met that this package does not define: few programs have such keys.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any, Final

from penstock.options.config_options import ConfigOption
from penstock.options.config_values import OptionType
from penstock.options.support_rules import OPEN_PREFIXES

# flink_options.tsv is generated. The autoscaler is part of Flink's Kubernetes operator, which has no jars in the distribution.
_LISTS: Final = ("flink_options.tsv", "operator_options.tsv")
_PLACEHOLDER: Final = re.compile(r"<[^>]+>")


@dataclass(frozen=True, slots=True)
class FlinkOptions:
    """Flink's options by key; those by older key; and those whose keys have a part that users name, as patterns."""

    by_key: dict[str, ConfigOption[Any]]
    by_older_key: dict[str, ConfigOption[Any]]
    patterns: tuple[tuple[re.Pattern[str], ConfigOption[Any]], ...]

    def find(self, key: str) -> ConfigOption[Any] | None:
        """Return the option with a key, current or older; one that users have named has the key as they write it."""
        found = self.by_key.get(key) or self.by_older_key.get(key)
        if found is not None:
            return found
        for pattern, option in self.patterns:
            if pattern.fullmatch(key):
                return replace(option, key=key, deprecated_keys=())
        return ConfigOption(key) if key.startswith(OPEN_PREFIXES) else self._entry(key)

    def _entry(self, key: str) -> ConfigOption[Any] | None:
        """Return the entry of an option that is a map: it may be written as an option of its own."""
        parts = key.split(".")
        for count in range(len(parts) - 1, 0, -1):
            option = self.by_key.get(".".join(parts[:count]))
            if option is not None and option.type is OptionType.MAP:
                return ConfigOption(key)
        return None


@functools.cache
def flink_options() -> FlinkOptions:
    """Read the list."""
    folder = resources.files("penstock.options")
    rows = [
        line.split("\t")
        for name in _LISTS
        for line in folder.joinpath(name).read_text(encoding="utf-8").splitlines()
    ]
    options = [_option(*row) for row in rows]
    plain = {option.key: option for option in options if "<" not in option.key}
    named = [option for option in options if "<" in option.key]
    return FlinkOptions(
        by_key=plain,
        by_older_key={
            older: option
            for option in reversed(options)  # the first that has an older key counts
            for older in option.deprecated_keys
            if older not in plain
        },
        patterns=tuple((_pattern(each.key), each) for each in sorted(named, key=_specificity)),
    )


def _option(key: str, kind: str, default: str, choices: str, older: str) -> ConfigOption[Any]:
    option: ConfigOption[Any] = ConfigOption(
        key,
        OptionType[kind],
        choices=tuple(choices.split(",")) if choices else (),
        deprecated_keys=tuple(each for each in older.split(",") if each and each != key),
        minimum=0 if kind == OptionType.DURATION.name else None,  # Flink reads no negative ones
    )
    return option if not default else replace(option, default=option.convert(default))


def _specificity(option: ConfigOption[Any]) -> tuple[int, int]:
    """Return what sorts `metrics.reporter.<name>.interval` before `metrics.reporter.<name>.<parameter>`, which matches its keys, too."""
    return option.key.count("<"), -option.key.count(".")


def _pattern(key: str) -> re.Pattern[str]:
    """Return the pattern of a key such as `metrics.reporter.<name>.<parameter>`: a name is one part, a last one any number of them."""
    *names, last = _PLACEHOLDER.split(key)
    rest = re.escape(last) if last else ""
    middle = r"[^.]+".join(map(re.escape, names))
    return re.compile(middle + (rf"[^.]+{rest}" if last else ".+"))
