"""The guarantee of checkpoints."""

from __future__ import annotations

import enum


class CheckpointingMode(enum.Enum):
    """Whether state reflects each record exactly once or at least once after a failure.

    AT_LEAST_ONCE applies to pipelined mode; epoch mode is always exactly-once.
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
