"""Helpers for tests of jobs: an operator harness and a manual clock."""

from __future__ import annotations

from penstock.testing.harness import HarnessSnapshot, ManualClock, OperatorHarness

__all__ = ["HarnessSnapshot", "ManualClock", "OperatorHarness"]
