"""Configuration: options by key, with typed access."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, TypeVar

from penstock.errors import ArgumentTypeError, ConfigurationError
from penstock.options.config_options import ConfigOption
from penstock.options.config_values import OptionType, parse_list, to_text
from penstock.options.yaml_lists import parse_yaml_list

T = TypeVar("T")

_HIDDEN = "******"
# Parts of the keys of options that must not be seen.
_SECRET_WORDS = (
    "password", "secret", "token", "apikey", "api-key", "account.key", "service-key", "basic-auth", "auth-params",
    "jaas.config", "http-headers", "signing.key",
)  # fmt: skip


class Configuration:
    """Options by key.

    >>> configuration = Configuration.from_dict({"parallelism.default": "4"})
    >>> configuration.get_integer("parallelism.default", 1)
    4
    """

    def __init__(self, other: Configuration | None = None) -> None:
        if other is not None and not isinstance(other, Configuration):
            raise ArgumentTypeError(
                f"other is not a Configuration: {other!r}", hint="use Configuration.from_dict"
            )
        self._values: dict[str, Any] = {}
        if other is not None:
            self.add_all(other)

    @staticmethod
    def from_dict(map: Mapping[str, Any]) -> Configuration:
        """Create a configuration from a dictionary."""
        configuration = Configuration()
        for key, value in map.items():
            configuration.set(key, value)
        return configuration

    def get(self, option: ConfigOption[T], default: T | None = None) -> T:
        """Return the value of an option: under its key, an older key, `default`, or its own default."""
        found = self._find(option)
        if option.type is OptionType.MAP:
            return self._get_map(option, found, default)
        if found is not None:
            return option.convert(self._values[found], found)
        return option.default if default is None else default

    def _find(self, option: ConfigOption[T]) -> str | None:
        for key in (option.key, *option.deprecated_keys):
            if key in self._values:
                return key
        return None

    def _get_map(self, option: ConfigOption[T], found: str | None, default: T | None) -> T:
        # A map is also written as one option per entry, under the map's key and a dot.
        prefix = f"{option.key}."
        entries = {
            key[len(prefix) :]: to_text(value)
            for key, value in self._values.items()
            if key.startswith(prefix)
        }
        base: Any = None if found is None else option.convert(self._values[found], found)
        if base is None and not entries:
            return option.default if default is None else default
        merged: Any = {**(base or {}), **entries}
        return merged  # type: ignore[no-any-return]

    def set(self, option: ConfigOption[T] | str, value: Any) -> Configuration:
        """Set an option, given as such or by its key; a ConfigOption checks the value."""
        if isinstance(option, ConfigOption):
            option.convert(value)
            key = option.key
        else:
            key = option
        if not isinstance(key, str) or not key:
            raise ArgumentTypeError(f"the key of an option is not a text: {key!r}")
        if value is None:
            raise ConfigurationError(
                f"option '{key}' cannot be None", hint="use remove_config to unset an option"
            )
        self._values[key] = value
        return self

    def contains(self, option: ConfigOption[Any]) -> bool:
        """Whether an option is set, under its key or an older one."""
        return self._find(option) is not None

    def _typed(self, key: str, kind: OptionType, default: object) -> Any:
        if key not in self._values:
            return default
        return ConfigOption[Any](key, kind).convert(self._values[key])

    def get_string(self, key: str, default_value: str) -> str:
        """Return an option as text."""
        return self._typed(key, OptionType.STRING, default_value)  # type: ignore[no-any-return]

    def set_string(self, key: str, value: str) -> Configuration:
        """Set an option to a text."""
        return self.set(key, value)

    def get_integer(self, key: str, default_value: int) -> int:
        """Return an option as an int."""
        return self._typed(key, OptionType.LONG, default_value)  # type: ignore[no-any-return]

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set an option to an int."""
        return self.set(key, ConfigOption[int](key, OptionType.LONG).convert(value))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Return an option as a bool."""
        return self._typed(key, OptionType.BOOLEAN, default_value)  # type: ignore[no-any-return]

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set an option to a bool."""
        return self.set(key, ConfigOption[bool](key, OptionType.BOOLEAN).convert(value))

    def get_float(self, key: str, default_value: float) -> float:
        """Return an option as a float."""
        return self._typed(key, OptionType.DOUBLE, default_value)  # type: ignore[no-any-return]

    def set_float(self, key: str, value: float) -> Configuration:
        """Set an option to a float."""
        return self.set(key, ConfigOption[float](key, OptionType.DOUBLE).convert(value))

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """Return an option as a bytearray."""
        if key not in self._values:
            return bytearray(default_value)
        value = self._values[key]
        if not isinstance(value, bytes | bytearray):
            raise ConfigurationError(f"option '{key}' cannot be {value!r}", hint="use bytes")
        return bytearray(value)

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        """Set an option to bytes."""
        if not isinstance(value, bytes | bytearray):
            raise ConfigurationError(f"option '{key}' cannot be {value!r}", hint="use bytes")
        return self.set(key, bytes(value))

    def key_set(self) -> builtins.set[str]:
        """Return all keys that are set."""
        return set(self._values)

    def contains_key(self, key: str) -> bool:
        """Whether a key is set."""
        return key in self._values

    def raw(self, key: str) -> Any:
        """Return what was set under a key, as it was given, or None."""
        return self._values.get(key)

    def remove_config(self, key: str) -> bool:
        """Unset a key; return whether it was set."""
        if key not in self._values:
            return False
        del self._values[key]
        return True

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Set everything that `other` sets, under keys with `prefix` in front."""
        for key, value in other._values.items():
            self._values[f"{prefix or ''}{key}"] = value
        return self

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Copy all options into a dictionary, as they were given."""
        target_dict.update(self._values)

    def to_dict(self) -> dict[str, str]:
        """Return all options as text."""
        return {key: to_text(value) for key, value in self._values.items()}

    @staticmethod
    def parse_list_value(value: str) -> list[Any]:
        """Read a list: texts 'a;b', or YAML's '[a, 1, true]' with typed items."""
        if not value:
            return []
        try:
            items = parse_yaml_list(value)
            return parse_list(value) if items is None else items
        except ValueError as error:
            raise ConfigurationError(f"'{value}' is not a list", detail=str(error)) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(frozenset(self.to_dict().items()))

    def _shown(self) -> dict[str, str]:
        """Return all options as text, sorted, with secrets hidden: this may be printed or logged."""
        return {key: shown(key, text) for key, text in sorted(self.to_dict().items())}

    def __str__(self) -> str:
        return f"{{{', '.join(f'{key}={value}' for key, value in self._shown().items())}}}"

    def __repr__(self) -> str:
        return f"Configuration({self._shown()!r})"


def shown(key: str, text: str) -> str:
    """Return the value of an option as it may be printed or logged: secrets are hidden.

    >>> shown("s3.secret-key", "abc"), shown("parallelism.default", "4")
    ('******', '4')
    """
    lowered = key.lower()
    return _HIDDEN if any(word in lowered for word in _SECRET_WORDS) else text


__all__ = ["Configuration", "shown"]
