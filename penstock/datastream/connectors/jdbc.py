"""Databases: the names of PyFlink's classes, to come."""

from __future__ import annotations

from penstock.common.not_implemented import not_implemented_class as _absent

_REASON = "there is no JDBC connector yet, and there will be no JDBC driver"
_HINT = (
    "write a Sink of your own with penstock.datastream.connectors.base and a Python database driver"
)

JdbcConnectionOptions = _absent("JdbcConnectionOptions", _REASON, hint=_HINT)
JdbcExecutionOptions = _absent("JdbcExecutionOptions", _REASON, hint=_HINT)
JdbcSink = _absent("JdbcSink", _REASON, hint=_HINT)

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"]
