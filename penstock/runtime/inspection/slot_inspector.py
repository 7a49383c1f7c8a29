"""Answers what is asked of a slot, beside the thread that runs its subtasks: also while user code keeps that one."""

from __future__ import annotations

import threading
import time
from collections.abc import Container
from types import CodeType
from typing import Any, Final, Protocol

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


class Inspected(Protocol):
    """A slot, as it is looked at. All of it may be read by any thread."""

    @property
    def working_for(self) -> TaskId | None:
        """The task whose turn it is, None while the slot waits."""

    @property
    def task_ids(self) -> list[TaskId]:
        """The tasks of the slot."""

    def watch_keys(self, task: TaskId, sample: KeySample | None) -> None:
        """Let the keys that a task takes be counted; None: no more."""

    def details(self, task: TaskId) -> TaskDetail:
        """Return what a task tells of itself."""


class SlotInspector:
    """Answers the fixed set of requests about one slot, whose thread is the one that makes this."""

    def __init__(self, slot: Inspected, outermost: Container[CodeType] = ()) -> None:
        """Of each sampled stack the part down to one of the functions `outermost` is left out."""
        self._slot = slot
        self._thread = threading.get_ident()
        self._outermost = outermost
        self._stopped = threading.Event()
        remember_log()

    def answer(self, request: Any) -> Any:
        """Answer a request; raises if it is not one of those that there are. By any thread."""
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
        raise ArgumentError(f"a slot does not know the request {type(request).__name__}")

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
        """End what takes a while."""
        self._stopped.set()
