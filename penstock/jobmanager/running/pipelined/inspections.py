"""Inspection requests to running slots: any thread adds them, the thread that drives the job sends them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.errors import JobRequestError, PenstockError
from penstock.graph.task_id import TaskId
from penstock.runtime.inspection.requests import InspectionRequest, SlotId
from penstock.runtime.network.inspection import InspectionAnswer, InspectionQuestion

# Added to the duration of a request: for the network, and for a process that is short of CPU.
TIMEOUT_S: Final = 10.0


class NoAnswerError(JobRequestError):
    """A slot has not answered an inspection request."""


@dataclass(slots=True, eq=False)
class Inspection:
    """One inspection request: its target, and the future of its result."""

    target: TaskId | SlotId
    question: InspectionQuestion
    until: float  # on the monotonic clock
    result: Future[Any] = field(default_factory=Future)
    asked: str | None = None  # the token of the attempt to which it was sent


class Inspections:
    """The open inspection requests. `ask` is thread-safe, everything else is for the thread that drives the job."""

    def __init__(self, wake: Callable[[], None], now: Callable[[], float] = time.monotonic) -> None:
        self._wake = wake
        self._now = now
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._new: list[Inspection] = []
        self._open: dict[int, Inspection] = {}  # sent requests, by number
        self._closed = False

    def ask(self, target: TaskId | SlotId, request: InspectionRequest) -> Future[Any]:
        """Add a request to a task or slot."""
        until = self._now() + request.seconds + TIMEOUT_S
        with self._lock:
            inspection = Inspection(target, InspectionQuestion(next(self._numbers), request), until)
            if not self._closed:
                self._new.append(inspection)
        if self._closed:
            _refuse(inspection, JobRequestError("the job is not running any more"))
        self._wake()
        return inspection.result

    def take(self) -> list[Inspection]:
        """Return the requests to send; fail those that have timed out."""
        if not self._new and not self._open:
            return []
        now = self._now()
        with self._lock:
            new, self._new = self._new, []
        late = [each for each in (*new, *self._open.values()) if now > each.until]
        for each in late:
            self._open.pop(each.question.number, None)
            _refuse(each, _silent(each))
        return [each for each in new if each not in late]

    def postpone(self, inspection: Inspection) -> None:
        """Send a request later: its slot is not ready yet."""
        with self._lock:
            self._new.append(inspection)

    def sent(self, inspection: Inspection, token: str) -> None:
        """Record that a request was sent to a slot of an attempt."""
        inspection.asked = token
        self._open[inspection.question.number] = inspection

    def refuse(self, inspection: Inspection, error: PenstockError) -> None:
        """Fail a request."""
        _refuse(inspection, error)

    def on_answer(self, answer: InspectionAnswer) -> None:
        """Complete a request with the answer of a slot; late answers are dropped."""
        inspection = self._open.pop(answer.number, None)
        if inspection is None:
            return
        if answer.error is not None:
            _refuse(inspection, JobRequestError(answer.error))
        elif inspection.result.set_running_or_notify_cancel():
            inspection.result.set_result(answer.value)

    def on_ended(self, token: str) -> None:
        """Fail the requests to slots that have ended."""
        for number, each in list(self._open.items()):
            if each.asked == token:
                del self._open[number]
                _refuse(each, NoAnswerError(f"{_describe(each.target)} has ended"))

    def close(self) -> None:
        """Fail all requests."""
        with self._lock:
            self._closed = True
            left, self._new = [*self._new, *self._open.values()], []
        self._open = {}
        for each in left:
            _refuse(each, JobRequestError("the job is not running any more"))


def _describe(target: TaskId | SlotId) -> str:
    return f"task {target}" if isinstance(target, TaskId) else str(target)


def _silent(inspection: Inspection) -> NoAnswerError:
    return NoAnswerError(
        f"{_describe(inspection.target)} did not answer in time",
        hint="its process may be stopped, or in a library call that does not release the GIL",
    )


def _refuse(inspection: Inspection, error: PenstockError) -> None:
    if inspection.result.set_running_or_notify_cancel():
        inspection.result.set_exception(error)
