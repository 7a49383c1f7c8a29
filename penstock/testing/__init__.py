"""Helpers for tests of jobs: an operator harness, a manual clock, a cluster in one process."""

from __future__ import annotations

from penstock.testing.harness import HarnessSnapshot, ManualClock, OperatorHarness
from penstock.testing.mini_cluster import MiniCluster

__all__ = ["HarnessSnapshot", "ManualClock", "MiniCluster", "OperatorHarness"]
