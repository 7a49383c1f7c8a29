"""ResultKind: the kind of a statement's result."""

from __future__ import annotations

import enum


class ResultKind(enum.Enum):
    """SUCCESS: the statement was carried out, and there is nothing more to say. SUCCESS_WITH_CONTENT: there are rows to look at."""

    SUCCESS = 0
    SUCCESS_WITH_CONTENT = 1


__all__ = ["ResultKind"]
