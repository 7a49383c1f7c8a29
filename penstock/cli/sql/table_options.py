"""Completions in WITH (...): the option keys of a connector, and the values of a key."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator

from penstock.sql.connector.options import Option

_WATERMARKS = "penstock.sql.connector.watermark_options:WATERMARK_OPTIONS"
# connector -> where its options are defined; imported on first use
_OPTIONS = {
    "blackhole": (),
    "datagen": ("penstock.connectors.datagen.table:OPTIONS", _WATERMARKS),
    "filesystem": (
        "penstock.connectors.filesystem.table.factory:OPTIONS",
        "penstock.connectors.filesystem.table.factory:CSV_OPTIONS",
        _WATERMARKS,
    ),
    "jdbc": ("penstock.connectors.jdbc.table.factory:OPTIONS", _WATERMARKS),
    "kafka": ("penstock.connectors.kafka.table.options:KAFKA", _WATERMARKS),
    "print": ("penstock.connectors.print.table:OPTIONS",),
    "upsert-kafka": ("penstock.connectors.kafka.table.options:UPSERT_KAFKA", _WATERMARKS),
}
_OPEN = re.compile(r"(?is)\bWITH\s*\((?P<given>(?:[^'()]|'[^']*')*)'(?P<typed>[^']*)$")
_KEY_BEFORE = re.compile(r"'([^']*)'\s*=\s*$")
_CONNECTOR = re.compile(r"'connector'\s*=\s*'([^']*)'")


def table_options(statement: str) -> tuple[str, list[str]] | None:
    """Return the typed part of a key or value in WITH (...) and its completions; None if the cursor is elsewhere.

    >>> table_options("CREATE TABLE t (a INT) WITH ('connector' = 'data")
    ('data', ['blackhole', 'datagen', 'filesystem', 'jdbc', 'kafka', 'print', 'upsert-kafka'])
    """
    found = _OPEN.search(statement)
    if found is None:
        return None
    given, typed = found["given"], found["typed"]
    connector = _CONNECTOR.search(given)
    options = {each.name: each for each in _options_of(connector[1] if connector else "")}
    key = _KEY_BEFORE.search(given)
    if key is None:
        return typed, ["connector", *sorted(options)]
    if key[1] == "connector":
        return typed, sorted(_OPTIONS)
    if key[1].endswith("format") and key[1] in options:
        return typed, list(options[key[1]].choices or _message_formats())
    option = options.get(key[1])
    return typed, [] if option is None else list(option.choices)


def _options_of(connector: str) -> Iterator[Option]:
    for address in _OPTIONS.get(connector, ()):
        module, _, name = address.partition(":")
        try:
            yield from getattr(importlib.import_module(module), name)
        except ImportError:  # a dependency of the connector is not installed
            return


def _message_formats() -> tuple[str, ...]:
    from penstock.formats.message_formats import MESSAGE_FORMATS

    return MESSAGE_FORMATS
