"""What a checkpoint guarantees."""

from __future__ import annotations

import enum


class CheckpointingMode(enum.Enum):
    """Whether state reflects each record exactly once or at least once after a failure.

    AT_LEAST_ONCE counts in pipelined jobs; epochs are exactly-once, always.
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
