"""Questions about slots that run: asked by any thread, sent and answered by the one that drives the job."""

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
from penstock.runtime.network.inspection import Answer, Question

# Beyond the time that answering takes: for the way there and back, and for a process that has no processor.
PATIENCE_S: Final = 10.0


class NoAnswerError(JobRequestError):
    """A slot that was asked something has not answered."""


@dataclass(slots=True, eq=False)
class Inspection:
    """One question: whom it is for, and its answer, when it comes."""

    target: TaskId | SlotId
    question: Question
    until: float  # on the monotonic clock
    result: Future[Any] = field(default_factory=Future)
    asked: str | None = None  # the token of the attempt that it was sent to


class Inspections:
    """The questions that are open. `ask` is for any thread, all else for the one that drives the job."""

    def __init__(self, wake: Callable[[], None], now: Callable[[], float] = time.monotonic) -> None:
        self._wake = wake
        self._now = now
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._new: list[Inspection] = []
        self._open: dict[int, Inspection] = {}  # that were sent, by number
        self._closed = False

    def ask(self, target: TaskId | SlotId, request: InspectionRequest) -> Future[Any]:
        """Ask something about a task or a slot."""
        until = self._now() + request.seconds + PATIENCE_S
        with self._lock:
            inspection = Inspection(target, Question(next(self._numbers), request), until)
            if not self._closed:
                self._new.append(inspection)
        if self._closed:
            _refuse(inspection, JobRequestError("the job does not run any more"))
        self._wake()
        return inspection.result

    def take(self) -> list[Inspection]:
        """Return what is to be sent; give up what nobody has answered in time."""
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
        """Take a question up again later: its slot cannot be asked yet."""
        with self._lock:
            self._new.append(inspection)

    def sent(self, inspection: Inspection, token: str) -> None:
        """Take note that a question was sent to a slot of an attempt."""
        inspection.asked = token
        self._open[inspection.question.number] = inspection

    def refuse(self, inspection: Inspection, error: PenstockError) -> None:
        """Tell whoever asked why there is no answer."""
        _refuse(inspection, error)

    def on_answer(self, answer: Answer) -> None:
        """Hand over what a slot has answered; what comes too late is dropped."""
        inspection = self._open.pop(answer.number, None)
        if inspection is None:
            return
        if answer.error is not None:
            _refuse(inspection, JobRequestError(answer.error))
        elif inspection.result.set_running_or_notify_cancel():
            inspection.result.set_result(answer.value)

    def on_ended(self, token: str) -> None:
        """Give up what was asked of slots that are gone."""
        for number, each in list(self._open.items()):
            if each.asked == token:
                del self._open[number]
                _refuse(each, NoAnswerError(f"what {_describe(each.target)} did is over"))

    def close(self) -> None:
        """Give up everything."""
        with self._lock:
            self._closed = True
            left, self._new = [*self._new, *self._open.values()], []
        self._open = {}
        for each in left:
            _refuse(each, JobRequestError("the job does not run any more"))


def _describe(target: TaskId | SlotId) -> str:
    return f"task {target}" if isinstance(target, TaskId) else str(target)


def _silent(inspection: Inspection) -> NoAnswerError:
    return NoAnswerError(
        f"{_describe(inspection.target)} has not answered in time",
        hint="its process may be stopped, or in a library that keeps Python's interpreter to itself",
    )


def _refuse(inspection: Inspection, error: PenstockError) -> None:
    if inspection.result.set_running_or_notify_cancel():
        inspection.result.set_exception(error)
