"""Answers inspection requests about a slot in a separate thread, so that it works while user code blocks the slot."""

from __future__ import annotations

import threading
import time
from collections.abc import Container
from types import CodeType
from typing import Final, Protocol

from penstock.errors import ArgumentError
from penstock.graph.task_id import TaskId
from penstock.runtime.inspection.key_sample import KeySample
from penstock.runtime.inspection.log_lines import MEMORY, remember_log
from penstock.runtime.inspection.process_facts import process_facts
from penstock.runtime.inspection.requests import (
    FrequentKeys,
    KeySamples,
    LogTail,
    ProcessDetails,
    StackSamples,
    TaskDetail,
    TaskDetails,
    ThreadDump,
)
from penstock.runtime.inspection.stacks import dump_threads, sample

_TURN_S: Final = 0.1


class InspectableSlot(Protocol):
    """A slot as seen by the inspector. All methods are thread-safe."""

    @property
    def working_for(self) -> TaskId | None:
        """The task that is being processed, None while the slot waits."""

    @property
    def task_ids(self) -> list[TaskId]:
        """The tasks of the slot."""

    def watch_keys(self, task: TaskId, sample: KeySample | None) -> None:
        """Start counting the keys that a task receives; None stops it."""

    def details(self, task: TaskId) -> TaskDetail:
        """Return the details of a task."""


class SlotInspector:
    """Answers inspection requests about one slot. It must be created by the slot's thread."""

    def __init__(self, slot: InspectableSlot, outermost: Container[CodeType] = ()) -> None:
        """The frames of each sampled stack up to one of the functions `outermost` are omitted."""
        self._slot = slot
        self._thread = threading.get_ident()
        self._outermost = outermost
        self._stopped = threading.Event()
        remember_log()

    def answer(self, request: object) -> object:
        """Answer a request; raises if it is unknown. Thread-safe."""
        match request:
            case StackSamples(task=task):
                if task is not None:
                    self._own(task)
                return sample(
                    request,
                    self._thread,
                    lambda: self._slot.working_for,
                    self._stopped,
                    self._outermost,
                )
            case KeySamples(task=task):
                return self._watch_keys(request, task)
            case TaskDetails(task=task):
                return self._slot.details(self._own(task))
            case ProcessDetails():
                return process_facts()
            case ThreadDump():
                return dump_threads(self._thread)
            case LogTail():
                return MEMORY.tail(request)
        raise ArgumentError(f"unknown inspection request {type(request).__name__}")

    def _own(self, task: TaskId) -> TaskId:
        if task not in self._slot.task_ids:
            raise ArgumentError(f"task {task} does not run in this slot")
        return task

    def _watch_keys(self, request: KeySamples, task: TaskId) -> FrequentKeys:
        keys = KeySample(request)
        self._slot.watch_keys(self._own(task), keys)
        try:
            until = time.monotonic() + request.watch_s
            while (left := until - time.monotonic()) > 0 and not self._stopped.is_set():
                if keys.full.wait(min(left, _TURN_S)):
                    break
        finally:
            self._slot.watch_keys(task, None)
        return keys.result()

    def close(self) -> None:
        """Stop long-running requests."""
        self._stopped.set()
