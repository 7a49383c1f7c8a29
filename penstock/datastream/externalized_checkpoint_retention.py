"""Retention of checkpoints when a job ends."""

from __future__ import annotations

import enum


class ExternalizedCheckpointRetention(enum.Enum):
    """Whether the checkpoints of a cancelled job are retained.

    A failed job always retains its last checkpoint unless retention is NO_EXTERNALIZED_CHECKPOINTS.
    """

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
