"""Windows of the Table API, by the names of PyFlink's module."""

from __future__ import annotations

from penstock.sql.table_api.windows import GroupWindow, Over, OverWindow, Session, Slide, Tumble

__all__ = ["GroupWindow", "Over", "OverWindow", "Session", "Slide", "Tumble"]
