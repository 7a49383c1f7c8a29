"""ChangelogMode, by the name of PyFlink's module."""

from __future__ import annotations

from penstock.sql.connector.changelog_mode import ChangelogMode

__all__ = ["ChangelogMode"]
