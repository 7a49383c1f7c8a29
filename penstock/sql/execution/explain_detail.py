"""ExplainDetail: additional details in the output of EXPLAIN."""

from __future__ import annotations

import enum


class ExplainDetail(enum.Enum):
    """A detail of explain().

    >>> ExplainDetail.CHANGELOG_MODE.name
    'CHANGELOG_MODE'
    """

    ESTIMATED_COST = 0
    CHANGELOG_MODE = 1
    JSON_EXECUTION_PLAN = 2
    PLAN_ADVICE = 3


__all__ = ["ExplainDetail"]
