"""SqlDialect: whose SQL is written."""

from __future__ import annotations

import enum


class SqlDialect(enum.Enum):
    """Flink's own SQL, or Hive's, which Penstock does not have."""

    DEFAULT = 0
    HIVE = 1


__all__ = ["SqlDialect"]
