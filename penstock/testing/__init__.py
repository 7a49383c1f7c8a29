"""Helpers for tests of jobs: an operator harness, a manual clock, a cluster in one process, a kit that connectors are put through."""

from __future__ import annotations

from penstock.testing.conformance import (
    ConformanceError,
    Guarantee,
    SinkConformance,
    SinkSetup,
    SourceConformance,
    SourceSetup,
    sink_rules,
    source_rules,
)
from penstock.testing.harness import HarnessSnapshot, ManualClock, OperatorHarness
from penstock.testing.mini_cluster import MiniCluster

__all__ = [
    "ConformanceError",
    "Guarantee",
    "HarnessSnapshot",
    "ManualClock",
    "MiniCluster",
    "OperatorHarness",
    "SinkConformance",
    "SinkSetup",
    "SourceConformance",
    "SourceSetup",
    "sink_rules",
    "source_rules",
]
