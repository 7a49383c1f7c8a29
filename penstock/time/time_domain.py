"""Which clock a timer follows."""

from __future__ import annotations

import enum


class TimeDomain(enum.Enum):
    """The clock of a timer: watermarks or the wall clock."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1
