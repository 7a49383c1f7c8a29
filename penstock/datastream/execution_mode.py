"""Streaming or batch execution."""

from __future__ import annotations

import enum


class RuntimeExecutionMode(enum.Enum):
    """How a program is executed.

    STREAMING emits every update, takes checkpoints and advances watermarks continuously; BATCH needs bounded sources and
    emits one final result; AUTOMATIC is BATCH if every source is bounded.
    """

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
