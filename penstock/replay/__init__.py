"""Replay: runs one checkpoint interval of a job again in one process, from its state and over its input, for debugging."""

from __future__ import annotations

from penstock.replay.api import ReplayRequest, debug, replay
from penstock.replay.debugging import Stop
from penstock.replay.errors import ReplayError
from penstock.replay.result import OperatorCounts, ReplayFailure, ReplayResult, SinkRecord
from penstock.replay.state_check import StateComparison, TableComparison

__all__ = [
    "OperatorCounts",
    "ReplayError",
    "ReplayFailure",
    "ReplayRequest",
    "ReplayResult",
    "SinkRecord",
    "StateComparison",
    "Stop",
    "TableComparison",
    "debug",
    "replay",
]
