"""Helpers for tests of jobs: an operator harness, a manual clock, a cluster in one process, a kit that connectors are put through."""

from __future__ import annotations

from penstock.client.mini_cluster import MiniCluster
from penstock.datastream._unexecuted import expect_tests
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

expect_tests()  # programs of tests are often not executed

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
