"""What a checkpoint guarantees."""

from __future__ import annotations

import enum


class CheckpointingMode(enum.Enum):
    """Whether state reflects each record exactly once or at least once after a failure.

    Penstock's epochs are always exactly-once; AT_LEAST_ONCE is accepted and not weaker.
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
