"""The monotonic clock of slots, their tasks and sources, replaced by one of a test."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Final

import pytest

from penstock.runtime.operators.connectors import source_modes, split_reader
from penstock.runtime.operators.connectors.split_schedulers import PipelinedSplitScheduler
from penstock.runtime.task.pipelined import (
    channel_reading,
    operator_wakeups,
    pipelined_slot,
    pipelined_task,
    source_polling,
    task_state,
)

_MODULES: Final = (
    channel_reading,
    operator_wakeups,
    pipelined_slot,
    pipelined_task,
    source_modes,
    source_polling,
    split_reader,
    task_state,
)


def replace_monotonic(monkeypatch: pytest.MonkeyPatch, monotonic: Callable[[], float]) -> None:
    """Let everything that runs in a slot read this clock, and no other: else a test depends on how long the machine has been up."""
    shown = SimpleNamespace(monotonic=monotonic)
    for module in _MODULES:
        monkeypatch.setattr(module, "time", shown)
    monkeypatch.setattr(PipelinedSplitScheduler, "monotonic", staticmethod(monotonic))
