"""TableConfig: the options of a TableEnvironment."""

from __future__ import annotations

import datetime as dt
from typing import Any

from penstock import options
from penstock.errors import ArgumentError, ArgumentTypeError, UnsupportedOperationError
from penstock.errors.argument_checks import check_instance, check_int, check_text
from penstock.options import table as table_options
from penstock.options.config_values import OptionType, to_text
from penstock.options.configuration import Configuration
from penstock.options.option_checks import check_setting, other_names, override
from penstock.options.pinned_options import pinned_options
from penstock.sql.execution.sql_dialect import SqlDialect
from penstock.time.durations import Duration
from penstock.time.zones import checked_zone, local_zone

LOCAL_TIME_ZONE = table_options.LOCAL_TIME_ZONE.key
STATE_TTL = table_options.STATE_TTL.key
_DIALECT = table_options.SQL_DIALECT.key
_CODE_LENGTH = "table.generated-code.max-length"
_PYTHON = "python.executable"


class TableConfig:
    """Options of tables, over those of the environment: values set here apply to queries.

    >>> TableConfig.get_default().set("table.exec.state.ttl", "1 h").get("table.exec.state.ttl", "")
    '1 h'
    """

    def __init__(
        self, configuration: Configuration | None = None, root: Configuration | None = None
    ) -> None:
        self._own = Configuration() if configuration is None else configuration
        self._initial = Configuration(self._own)
        self._root = Configuration() if root is None else root

    @staticmethod
    def get_default() -> TableConfig:
        """Return a configuration without any option."""
        return TableConfig()

    def effective(self) -> Configuration:
        """Return all options that count: those of the environment, over them those of tables, and over all those of the command line."""
        own = override(self._root, self._own)
        pinned = pinned_options()
        return own if pinned is None else override(own, pinned)

    def get(self, key: str, default_value: str) -> str:
        """Return an option as text."""
        check_text(key, "key")
        found = self.effective().raw(key)
        return default_value if found is None else to_text(found)

    def set(self, key: str, value: str) -> TableConfig:
        """Set an option; unknown ones and values that cannot be read are refused."""
        check_text(key, "key")
        if key == _DIALECT:
            _check_dialect(value)
        check_setting(key, value)
        if key == LOCAL_TIME_ZONE:
            checked_zone(value)
        for name in other_names(key):
            self._own.remove_config(name)
        self._own.set(key, value)
        return self

    def reset(self, key: str) -> bool:
        """Reset an option to its initial value; return whether it was set."""
        was_set = self._own.remove_config(key)
        if self._initial.contains_key(key):
            self._own.set(key, self._initial.raw(key))
        return was_set

    def to_map(self) -> dict[str, str]:
        """Return the options of tables as text."""
        return self._own.to_dict()

    def get_configuration(self) -> Configuration:
        """Return the options of tables, to be read and changed."""
        return self._own

    def add_configuration(self, configuration: Configuration) -> None:
        """Set all options of a configuration."""
        check_instance(configuration, Configuration, "configuration")
        for key, value in configuration.to_dict().items():
            self.set(key, value)

    def get_local_timezone(self) -> str:
        """Return the session time zone."""
        zone = self.get(LOCAL_TIME_ZONE, "default")
        return local_zone() if zone == "default" else zone

    @property
    def zone(self) -> str:
        """The session time zone by the name that IANA has for it."""
        return checked_zone(self.get_local_timezone())

    def set_local_timezone(self, timezone_id: str) -> None:
        """Set the session time zone, such as Europe/Berlin or GMT+08:00."""
        self.set(LOCAL_TIME_ZONE, timezone_id)

    def set_idle_state_retention(self, duration: dt.timedelta | Duration) -> None:
        """Let state of keys that did not change for so long be cleared."""
        if isinstance(duration, dt.timedelta):
            millis = duration // dt.timedelta(milliseconds=1)
        elif isinstance(duration, Duration):
            millis = duration.to_millis()
        else:
            raise ArgumentTypeError(f"duration must be a timedelta, got {duration!r}")
        if millis < 0:
            raise ArgumentError("duration must not be negative")
        self.set(STATE_TTL, f"{millis} ms")

    def get_idle_state_retention(self) -> dt.timedelta:
        """Return how long state is kept without changes; zero: always."""
        return dt.timedelta(milliseconds=duration_ms(self.get(STATE_TTL, "0 ms"), STATE_TTL))

    def get_max_generated_code_length(self) -> int:
        """Return the configured value: no code is generated."""
        return int(self.get(_CODE_LENGTH, "4000"))

    def set_max_generated_code_length(self, max_generated_code_length: int) -> None:
        """Accept a length: no code is generated."""
        length = check_int(max_generated_code_length, "max_generated_code_length", minimum=1)
        self._own.set(_CODE_LENGTH, str(length))

    def get_sql_dialect(self) -> SqlDialect:
        """Return whose SQL is written: Flink's."""
        return SqlDialect.DEFAULT

    def set_sql_dialect(self, sql_dialect: SqlDialect) -> None:
        """Accept Flink's own SQL."""
        check_instance(sql_dialect, SqlDialect, "sql_dialect")
        _check_dialect(sql_dialect.name)

    def set_python_executable(self, python_exec: str) -> None:
        """Set the Python of tasks."""
        self.set(_PYTHON, check_text(python_exec, "python_exec"))

    def get_python_executable(self) -> str | None:
        """Return the Python of tasks, if one is set."""
        return self.get(_PYTHON, "") or None

    @property
    def is_batch(self) -> bool:
        """Whether queries run over bounded data, with results at the end."""
        return self.effective().get(options.RUNTIME_MODE) == "BATCH"


def duration_ms(text: object, key: str) -> int:
    """Return a duration in milliseconds, as options write it.

    >>> duration_ms("2 min", "table.exec.state.ttl")
    120000
    """
    from penstock.options.config_options import ConfigOption

    duration: Any = ConfigOption[Any](key, OptionType.DURATION).convert(text)
    return int(duration.to_millis())


def _check_dialect(name: object) -> None:
    if str(name).lower() != "default":
        raise UnsupportedOperationError(
            f"unknown SQL dialect '{name}'", hint="use dialect 'default', Flink's own SQL"
        )


__all__ = ["TableConfig"]
