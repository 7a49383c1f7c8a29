"""Databases: a sink with PyFlink's names, and, beyond PyFlink, exactly-once delivery, a source, lookups."""

from __future__ import annotations

from penstock.connectors.base.lookup_cache import LookupCache
from penstock.connectors.jdbc.options import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
)
from penstock.connectors.jdbc.sink import JdbcSink
from penstock.connectors.jdbc.source import JdbcSource, JdbcSourceBuilder
from penstock.datastream.connectors.jdbc_lookup import JdbcLookup

__all__ = [
    "JdbcConnectionOptions",
    "JdbcExactlyOnceOptions",
    "JdbcExecutionOptions",
    "JdbcLookup",
    "JdbcSink",
    "JdbcSource",
    "JdbcSourceBuilder",
    "LookupCache",
]
