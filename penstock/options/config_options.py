"""ConfigOption: the key of an option with its type and default."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from penstock.errors import ArgumentTypeError, ConfigurationError
from penstock.options.config_values import OptionType, convert
from penstock.time.durations import Duration

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)  # no slots: ConfigOption[int](...) would fail in Python 3.11
class ConfigOption(Generic[T_co]):
    """An option: its key, the type of its values, what it is without a value, and its older keys."""

    key: str
    type: OptionType = OptionType.STRING
    default: T_co = None  # type: ignore[assignment]
    description: str = ""
    deprecated_keys: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    minimum: float | None = None  # of a number; of a duration, in milliseconds

    def with_description(self, description: str) -> ConfigOption[T_co]:
        """Return this option with a description."""
        return dataclasses.replace(self, description=description)

    def with_deprecated_keys(self, *keys: str) -> ConfigOption[T_co]:
        """Return this option with older keys under which its value is found too."""
        return dataclasses.replace(self, deprecated_keys=keys)

    def with_minimum(self, minimum: int) -> ConfigOption[T_co]:
        """Return this option with a least value."""
        return dataclasses.replace(self, minimum=minimum)

    def convert(self, value: object, key: str | None = None) -> T_co:
        """Return `value` as this option's type; `key` is the name that it was set under."""
        key = key or self.key
        try:
            converted = convert(value, self.type, self.choices)
        except ValueError as error:
            reason = str(error)
            if reason.startswith(("invalid literal", "could not convert")):
                reason = "it is not a number"
            expected = ", ".join(self.choices) if self.choices else self.type.value
            raise ConfigurationError(
                f"option '{key}' cannot be {value!r}",
                detail=None if self.choices else reason,
                hint=f"use {'one of ' if self.choices else ''}{expected}",
            ) from None
        if self.minimum is not None:
            number = converted.to_millis() if isinstance(converted, Duration) else converted
            if not number >= self.minimum:  # also false for NaN
                unit = " ms" if self.type is OptionType.DURATION else ""
                raise ConfigurationError(
                    f"option '{key}' cannot be {value!r}",
                    hint=f"use a value of at least {self.minimum}{unit}",
                )
        return cast("T_co", converted)


class TypedConfigOptionBuilder(Generic[T]):
    """An option with its type; the default is what is left to say."""

    def __init__(self, key: str, kind: OptionType, choices: tuple[str, ...] = ()) -> None:
        self._key = key
        self._kind = kind
        self._choices = choices

    def default_value(self, value: T) -> ConfigOption[T]:
        """Create the option with a default."""
        option: ConfigOption[T] = ConfigOption(self._key, self._kind, value, choices=self._choices)
        return dataclasses.replace(option, default=option.convert(value))

    def no_default_value(self) -> ConfigOption[T | None]:
        """Create the option without a default."""
        return ConfigOption(self._key, self._kind, None, choices=self._choices)


class OptionBuilder:
    """An option's key; the type comes next."""

    def __init__(self, key: str) -> None:
        self._key = key

    def boolean_type(self) -> TypedConfigOptionBuilder[bool]:
        """Say that values are true or false."""
        return TypedConfigOptionBuilder(self._key, OptionType.BOOLEAN)

    def int_type(self) -> TypedConfigOptionBuilder[int]:
        """Say that values are integers of 32 bits."""
        return TypedConfigOptionBuilder(self._key, OptionType.INT)

    def long_type(self) -> TypedConfigOptionBuilder[int]:
        """Say that values are integers of 64 bits."""
        return TypedConfigOptionBuilder(self._key, OptionType.LONG)

    def float_type(self) -> TypedConfigOptionBuilder[float]:
        """Say that values are numbers."""
        return TypedConfigOptionBuilder(self._key, OptionType.DOUBLE)

    def double_type(self) -> TypedConfigOptionBuilder[float]:
        """Say that values are numbers."""
        return TypedConfigOptionBuilder(self._key, OptionType.DOUBLE)

    def string_type(self) -> TypedConfigOptionBuilder[str]:
        """Say that values are text."""
        return TypedConfigOptionBuilder(self._key, OptionType.STRING)

    def duration_type(self) -> TypedConfigOptionBuilder[Duration]:
        """Say that values are durations."""
        return TypedConfigOptionBuilder(self._key, OptionType.DURATION)

    def memory_type(self) -> TypedConfigOptionBuilder[int]:
        """Say that values are sizes of memory, read as bytes."""
        return TypedConfigOptionBuilder(self._key, OptionType.MEMORY)

    def map_type(self) -> TypedConfigOptionBuilder[dict[str, str]]:
        """Say that values are maps of text to text."""
        return TypedConfigOptionBuilder(self._key, OptionType.MAP)

    def list_type(self) -> TypedConfigOptionBuilder[list[str]]:
        """Say that values are lists of text."""
        return TypedConfigOptionBuilder(self._key, OptionType.LIST)

    def enum_type(self, choices: type[enum.Enum] | Iterable[str]) -> TypedConfigOptionBuilder[str]:
        """Say that values are one of some names, in any case."""
        names = tuple(choices.__members__) if isinstance(choices, type) else tuple(choices)
        return TypedConfigOptionBuilder(self._key, OptionType.ENUM, names)


class ConfigOptions:
    """Where an option begins.

    >>> ConfigOptions.key("application.parallelism").int_type().default_value(100).default
    100
    """

    @staticmethod
    def key(key: str) -> OptionBuilder:
        """Start an option with its key."""
        if not isinstance(key, str) or not key:
            raise ArgumentTypeError(f"the key of an option is not a text: {key!r}")
        return OptionBuilder(key)


__all__ = ["ConfigOption", "ConfigOptions"]
