"""Completions in WITH (...): the option keys of a connector, and the values of a key."""

from __future__ import annotations

import re

from penstock.errors import ConfigurationError
from penstock.sql.connector.options import Option
from penstock.sql.connector.registry import CONNECTORS
from penstock.sql.connector.watermark_options import WATERMARK_OPTIONS

_OPEN = re.compile(r"(?is)\bWITH\s*\((?P<given>(?:[^'()]|'[^']*')*)'(?P<typed>[^']*)$")
_KEY_BEFORE = re.compile(r"'([^']*)'\s*=\s*$")
_CONNECTOR = re.compile(r"'connector'\s*=\s*'([^']*)'")


def table_options(statement: str) -> tuple[str, list[str]] | None:
    """Return the typed part of a key or value in WITH (...) and its completions; None if the cursor is elsewhere.

    >>> table_options("CREATE TABLE t (a INT) WITH ('connector' = 'b")
    ('b', ['blackhole', 'datagen', 'filesystem', 'jdbc', 'kafka', 'print', 'upsert-kafka', 'values'])
    """
    found = _OPEN.search(statement)
    if found is None:
        return None
    given, typed = found["given"], found["typed"]
    connector = _CONNECTOR.search(given)
    options = {} if connector is None else _options_of(connector[1])
    key = _KEY_BEFORE.search(given)
    if key is None:
        return typed, ["connector", *sorted(options)]
    if key[1] == "connector":
        return typed, CONNECTORS.names()
    option = options.get(key[1])
    return typed, [] if option is None else list(option.choices or option.suggestions())


def _options_of(connector: str) -> dict[str, Option]:
    try:
        factory = CONNECTORS.find(connector)
    except ConfigurationError:  # there is none of this name, or it cannot be loaded
        return {}
    watermarks = WATERMARK_OPTIONS if factory.is_readable else ()
    return {each.name: each for each in (*factory.options, *watermarks)}
