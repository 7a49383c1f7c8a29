"""Completions in WITH (...): the option keys of a connector, and the values of a key."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.errors import ConfigurationError
from penstock.sql.connector.formats import FORMATS
from penstock.sql.connector.options import Option
from penstock.sql.connector.registry import CONNECTORS
from penstock.sql.connector.watermark_options import WATERMARK_OPTIONS

_OPEN = re.compile(r"(?is)\bWITH\s*\((?P<given>(?:[^'()]|'[^']*')*)'(?P<typed>[^']*)$")
_KEY_BEFORE = re.compile(r"'([^']*)'\s*=\s*$")
_GIVEN = re.compile(r"'([^']*)'\s*=\s*'([^']*)'")


def table_options(statement: str) -> tuple[str, list[str]] | None:
    """Return the typed part of a key or value in WITH (...) and its completions; None if the cursor is elsewhere.

    >>> table_options("CREATE TABLE t (a INT) WITH ('connector' = 'b")
    ('b', ['blackhole', 'datagen', 'filesystem', 'jdbc', 'kafka', 'print', 'upsert-kafka', 'values'])
    >>> found = table_options("CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'key.format' = 'raw', 'key.raw.")
    >>> [key for key in found[1] if "raw" in key]
    ['key.raw.charset', 'key.raw.endianness']
    """
    found = _OPEN.search(statement)
    if found is None:
        return None
    given, typed = found["given"], found["typed"]
    options = _options_of(dict(_GIVEN.findall(given)))
    key = _KEY_BEFORE.search(given)
    if key is None:
        return typed, ["connector", *sorted(options)]
    if key[1] == "connector":
        return typed, CONNECTORS.names()
    option = options.get(key[1])
    return typed, [] if option is None else list(option.choices or option.suggestions())


def _options_of(given: Mapping[str, str]) -> dict[str, Option]:
    """Return the options of a table's connector and formats by their keys."""
    try:
        factory = CONNECTORS.find(given.get("connector", ""))
    except ConfigurationError:  # there is none of this name, or it cannot be loaded
        return {}
    watermarks = WATERMARK_OPTIONS if factory.is_readable else ()
    options = {each.name: each for each in (*factory.options, *watermarks)}
    for key, name in given.items():
        if key in options and key.endswith("format"):
            options |= _options_of_format(name, f"{key.removesuffix('format')}{name}.")
    return options


def _options_of_format(name: str, prefix: str) -> dict[str, Option]:
    try:
        options = FORMATS.find(name).options
    except ConfigurationError:  # as above
        return {}
    return {f"{prefix}{each.name}": each for each in options}
