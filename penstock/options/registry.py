"""Where options are made known, each by the module that describes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from penstock.options.config_options import ConfigOption

T = TypeVar("T")

registered: dict[str, ConfigOption[Any]] = {}


def describe(
    option: ConfigOption[T], description: str, *deprecated: str, minimum: float | None = None
) -> ConfigOption[T]:
    """Make an option known, with what it is for, and return it; `minimum` is of a number, or of milliseconds."""
    option = replace(option, description=description, deprecated_keys=deprecated, minimum=minimum)
    registered[option.key] = option
    return option
