"""The check of a configuration: its keys, its values, and how far each option is supported.

Every key is an option that this package defines, one of Flink's list, one of Spark's, or one of the program's own. A key that looks like an
option of Flink or Penstock and is none is refused.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable
from typing import Any

from penstock.dependencies.python_dependencies import check_python_option
from penstock.errors import ConfigurationError
from penstock.options import OPTIONS, SPARK_PREFIX
from penstock.options.config_options import ConfigOption
from penstock.options.config_values import OptionType
from penstock.options.configuration import Configuration
from penstock.options.short_times import short_time
from penstock.options.support import OptionRule, Support, rule_of

_log = logging.getLogger(__name__)

_BY_ANY_KEY = {
    key: option for option in OPTIONS.values() for key in (*option.deprecated_keys, option.key)
}
# First parts of Flink's keys that are words which programs use, too: the part after them counts as well.
_COMMON_WORDS = frozenset({"client", "events", "job", "sink", "user"})
_ALIKE = 0.9
_said: set[str] = set()


def find_option(key: str) -> ConfigOption[Any] | None:
    """Return the option with this key, current or deprecated: one of Penstock's, else one of Flink's list; None if there is none."""
    found = _BY_ANY_KEY.get(key)
    if found is not None or key.startswith(SPARK_PREFIX):
        return found
    if _is_entry(key):
        return ConfigOption(key)
    from penstock.options.flink import flink_options

    return flink_options().find(key)


def _is_entry(key: str) -> bool:
    return any(
        option.type is OptionType.MAP and key.startswith(f"{option.key}.")
        for option in OPTIONS.values()
    )


def support_of(key: str) -> OptionRule:
    """Return how far the option with this key is supported."""
    option = find_option(key)
    real = key if option is None else option.key
    return rule_of(real, defined=real in OPTIONS or _is_entry(real))


def override(below: Configuration, above: Configuration) -> Configuration:
    """Return all options of two configurations; one that is in both, under whatever name, has the value of `above`.

    >>> below, above = {"state.backend.type": "hashmap"}, {"state.backend": "rocksdb"}
    >>> override(Configuration.from_dict(below), Configuration.from_dict(above)).to_dict()
    {'state.backend': 'rocksdb'}
    """
    merged = Configuration(below)
    for key in above.key_set():
        for name in other_names(key):
            merged.remove_config(name)
    return merged.add_all(above)


def other_names(key: str) -> list[str]:
    """Return the other names of the option with this key, its current one and older ones."""
    option = find_option(key)
    names = () if option is None else (option.key, *option.deprecated_keys)
    return [name for name in names if name != key]


def nearest_keys(key: str, known: Iterable[str]) -> list[str]:
    """Return the known keys that look most like `key`, at most three."""
    return difflib.get_close_matches(key, list(known), n=3, cutoff=0.6)


def check_key(key: str, where: str | None = None) -> None:
    """Refuse a key that looks like an option of Flink or Penstock and is none; `where` it was found."""
    if key.startswith(SPARK_PREFIX) or find_option(key) is not None:
        return
    from penstock.options.flink import flink_options

    listed = flink_options()
    known = {*_BY_ANY_KEY, *listed.by_key, *listed.by_older_key}
    nearest = _spark_keys(key) or nearest_keys(key, known)
    if _is_of_flink(key, known) or _is_alike(key, nearest):
        raise ConfigurationError(
            f"unknown option '{key}'",
            detail=where,
            hint=f"did you mean {' or '.join(nearest)}?"
            if nearest
            else "use your own prefix for your own parameters, or set_global_job_parameters",
        )


def _is_of_flink(key: str, known: Iterable[str]) -> bool:
    """Whether a key begins as options of Flink and Penstock do."""
    first, _, rest = key.partition(".")
    begin = f"{first}.{rest.partition('.')[0]}" if first in _COMMON_WORDS else first
    return any(each == begin or each.startswith(f"{begin}.") for each in known)


def _is_alike(key: str, nearest: list[str]) -> bool:
    """Whether a key is a letter or two away from a known one."""
    return bool(nearest) and difflib.SequenceMatcher(None, key, nearest[0]).ratio() >= _ALIKE


def _spark_keys(key: str) -> list[str]:
    """Return what a key is that begins nearly as Spark's do.

    >>> _spark_keys("spak.executor.memory"), _spark_keys("parks.opened")
    (['spark.executor.memory'], [])
    """
    first, dot, rest = key.partition(".")
    alike = first[:1] == "s" and difflib.SequenceMatcher(None, first, "spark").ratio() > 0.85
    return [f"{SPARK_PREFIX}{rest}"] if dot and alike else []


def check_setting(key: str, value: object, where: str | None = None) -> None:
    """Check one option: its key, its value, and whether it has an effect. `where` it was set, unless by the program itself."""
    option = find_option(key)
    if option is None:
        check_key(key, where)
        if not key.startswith(SPARK_PREFIX):
            # A program's own key in a program is nothing special. Elsewhere it may be a mistake.
            level = logging.INFO if where is None else logging.WARNING
            log_once(
                f"option '{key}' is for the program: Flink, Spark and Penstock have none of this name",
                level,
            )
        return
    converted = option.convert(value, key)
    warn_of_short_time(option.key, value)
    check_python_option(option.key, converted)
    if key != option.key:
        log_once(f"option '{key}' is an older name of '{option.key}'")
    rule = rule_of(option.key, defined=option.key in OPTIONS or _is_entry(option.key))
    if rule.support in {Support.WORKS, Support.NO_MEANING} or _is_usual(option, converted, rule):
        return
    if rule.support is Support.REFUSED:
        raise ConfigurationError(
            f"option '{key}' is not supported", detail=where, hint=rule.note or None
        )
    if rule.support is Support.UNSUPPORTED:
        log_once(f"option '{key}' is not supported and has no effect: {rule.note}")
    else:
        log_once(f"option '{key}' works differently: {rule.note}", logging.INFO)


def warn_of_short_time(key: str, value: object) -> None:
    """Log if an option is set to so few milliseconds that seconds were probably meant; `value` is as the program gave it."""
    line = short_time(key, value)
    if line is not None:
        log_once(line)


def _is_usual(option: ConfigOption[Any], converted: object, rule: OptionRule) -> bool:
    """Whether a value asks for nothing but what happens anyway."""
    if rule.behaves_as is not None:
        return bool(converted == option.convert(rule.behaves_as))
    return bool(converted == option.default)


def log_once(line: str, level: int = logging.WARNING) -> None:
    """Log a line, once in a process: environments check the same file again and again, and plans the same tables."""
    if line not in _said:
        _said.add(line)
        _log.log(level, "%s", line)


def validate(configuration: Configuration, where: str | None = None) -> None:
    """Check all keys and values of a configuration; raise a ConfigurationError for the first that is wrong."""
    for key in sorted(configuration.key_set()):
        check_setting(key, configuration.raw(key), where)
