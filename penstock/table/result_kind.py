"""ResultKind, by the name of PyFlink's module."""

from __future__ import annotations

from penstock.sql.results.result_kind import ResultKind

__all__ = ["ResultKind"]
