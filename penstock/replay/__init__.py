"""Replay: runs one checkpoint interval of a job again in one process, from its state and over its input, for debugging."""

from __future__ import annotations

from penstock.replay.api import ReplayRequest, debug, replay
from penstock.replay.debugging import Breakpoint
from penstock.replay.errors import ReplayError
from penstock.replay.result import ReplayedCounts, ReplayFailure, ReplayResult, SinkRecord
from penstock.replay.state_check import StateComparison, TableComparison

__all__ = [
    "Breakpoint",
    "ReplayError",
    "ReplayFailure",
    "ReplayRequest",
    "ReplayResult",
    "ReplayedCounts",
    "SinkRecord",
    "StateComparison",
    "TableComparison",
    "debug",
    "replay",
]
