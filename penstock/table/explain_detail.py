"""ExplainDetail, by the name of PyFlink's module."""

from __future__ import annotations

from penstock.sql.execution.explain_detail import ExplainDetail

__all__ = ["ExplainDetail"]
