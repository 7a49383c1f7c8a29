"""The check of a configuration against the options that there are.

Options of Flink that mean nothing here are accepted without effect (`NO_EFFECT_PREFIXES`), and so are Spark's, which are its own
concern.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from penstock.common.config_options import ConfigOption
from penstock.common.config_values import OptionType
from penstock.common.configuration import Configuration
from penstock.common.ignored_options import NO_EFFECT_PREFIXES
from penstock.common.options import OPTIONS, SPARK_PREFIX
from penstock.common.python_dependencies import check_python_option
from penstock.errors import ConfigurationError

_BY_ANY_KEY = {
    key: option for option in OPTIONS.values() for key in (*option.deprecated_keys, option.key)
}


def find_option(key: str) -> ConfigOption[Any] | None:
    """Return the option with this key, current or deprecated, or None."""
    return _BY_ANY_KEY.get(key)


def is_known(key: str) -> bool:
    """Whether a key may be set: it is an option, an entry of a map option, Spark's, or Flink's without effect."""
    if key in _BY_ANY_KEY or key.startswith((SPARK_PREFIX, *NO_EFFECT_PREFIXES)):
        return True
    return any(
        option.type is OptionType.MAP and key.startswith(f"{option.key}.")
        for option in OPTIONS.values()
    )


def nearest_keys(key: str, known: Iterable[str] = _BY_ANY_KEY) -> list[str]:
    """Return the known keys that look most like `key`, at most three."""
    return difflib.get_close_matches(key, list(known), n=3, cutoff=0.6)


def check_key(key: str, where: str | None = None) -> None:
    """Refuse a key that is unknown, and one that is a slip of the pen away from an option; `where` it was found."""
    if key in _BY_ANY_KEY or key.startswith(SPARK_PREFIX):
        return
    slips = [known for known in _BY_ANY_KEY if _is_slip(key, known)]
    if is_known(key) and not slips:
        return
    nearest = slips[:3] or nearest_keys(key)
    raise ConfigurationError(
        f"option '{key}' is unknown",
        detail=where,
        hint=f"did you mean {' or '.join(nearest)}?"
        if nearest
        else "options of Spark begin with 'spark.'; parameters of your own belong into "
        "set_global_job_parameters",
    )


def _is_slip(written: str, meant: str) -> bool:
    """Whether one letter is missing, too many or wrong, or two are in the wrong order.

    >>> _is_slip("metrics.latency.intervall", "metrics.latency.interval"), _is_slip("a.min", "a.max")
    (True, False)
    """
    if abs(len(written) - len(meant)) > 1:
        return False
    same = next((n for n, (a, b) in enumerate(zip(written, meant, strict=False)) if a != b), None)
    if same is None:
        return written != meant
    left, right = written[same:], meant[same:]
    swapped = left[1::-1] == right[:2] and left[2:] == right[2:]
    return swapped or left[1:] == right[1:] or left[1:] == right or left == right[1:]


def validate(configuration: Configuration) -> None:
    """Check all keys and values of a configuration; raise a ConfigurationError for the first that is wrong."""
    for key in sorted(configuration.key_set()):
        option = find_option(key)
        if option is None:
            check_key(key)
        else:
            converted = option.convert(configuration.raw(key), key)
            check_python_option(option.key, converted)
