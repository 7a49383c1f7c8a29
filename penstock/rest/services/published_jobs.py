"""The running and ended jobs of this process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from http import HTTPStatus
from typing import Any, Protocol

from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.graph.task_id import TaskId
from penstock.jobmanager.diagnosis.findings import Diagnosis
from penstock.jobmanager.job_view import JobView
from penstock.rest.messages import HttpError
from penstock.runtime.inspection.requests import InspectionRequest, SlotId, SlotInfo

ENDED_JOBS = 100

_log = logging.getLogger(__name__)


class Controller(Protocol):
    """The controller of a job, as the REST server uses it. Methods may be called from any thread."""

    def get_job_id(self) -> JobID:
        """Return the job id."""

    def get_job_status(self) -> JobStatus:
        """Return the job's status."""

    def trigger_savepoint(self, directory: str | None, /) -> Future[str]:
        """Take a savepoint; the result is its path."""

    def stop_with_savepoint(self, drain: bool, directory: str | None, /) -> Future[str]:
        """Stop the job with a savepoint; the result is its path."""

    def cancel(self) -> Future[None]:
        """Cancel the job; done when it has ended."""

    def rescale(
        self, parallelism: int | Mapping[str, int], vertices: Mapping[str, int] | None = None, /
    ) -> Future[dict[str, int]]:
        """Change the parallelism of all vertices, of some, or of all with exceptions; the result is the parallelism by vertex."""

    def inspect(self, target: TaskId | SlotId, request: InspectionRequest, /) -> Future[Any]:
        """Send an inspection request to a running task or slot."""

    def slots(self) -> list[SlotInfo]:
        """Return the running slots that can be inspected."""

    def diagnose(self, now_ms: int, /) -> Diagnosis:
        """Return the diagnosis of the job; takes about a second."""

    def view(self) -> JobView:
        """Return the view of the job."""


class PublishedJobs:
    """The jobs of this process.

    Of an ended job only the last view is kept, so that its resources can be freed, as soon as it is withdrawn or another
    job is published; and only of the last 100 jobs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, Controller] = {}  # until they are withdrawn
        self._ended: dict[str, JobView] = {}

    def publish(self, controller: Controller) -> None:
        """Add a job. A job that resumes an ended one under the same id replaces it."""
        self._withdraw_ended()
        job_id = str(controller.get_job_id())
        with self._lock:
            self._ended.pop(job_id, None)
            self._running.pop(job_id, None)
            self._running[job_id] = controller

    def withdraw(self, controller: Controller) -> None:
        """Release a job. It stays visible if it has ended."""
        job_id = str(controller.get_job_id())
        view = None
        try:
            if controller.get_job_status().is_terminal_state():
                view = controller.view().collected()
        except Exception:  # noqa: BLE001 - the controller must be released in any state
            _log.warning("job %s could not be described when it ended", job_id, exc_info=True)
        with self._lock:
            if self._running.get(job_id) is not controller:
                return
            del self._running[job_id]
            if view is not None:
                self._ended[job_id] = view
                while len(self._ended) > ENDED_JOBS:
                    del self._ended[next(iter(self._ended))]

    def _withdraw_ended(self) -> None:
        with self._lock:
            controllers = list(self._running.values())
        for controller in controllers:
            if controller.get_job_status().is_terminal_state():
                self.withdraw(controller)

    def controllers(self) -> list[Controller]:
        """Return the controllers of the jobs that have not ended."""
        with self._lock:
            controllers = list(self._running.values())
        return [each for each in controllers if not each.get_job_status().is_terminal_state()]

    def views(self) -> list[JobView]:
        """Return the views of all jobs, the newest first."""
        with self._lock:
            controllers = list(self._running.values())
            ended = list(self._ended.values())
        return [controller.view() for controller in controllers[::-1]] + ended[::-1]

    def view(self, job_id: str) -> JobView:
        """Return the view of one job."""
        with self._lock:
            controller = self._running.get(job_id)
            ended = self._ended.get(job_id)
        if controller is not None:
            return controller.view()
        if ended is not None:
            return ended
        raise self._unknown(job_id)

    def running(self, job_id: str) -> Controller:
        """Return the controller of a job; an error if the job has ended."""
        with self._lock:
            controller = self._running.get(job_id)
        if controller is not None and not controller.get_job_status().is_terminal_state():
            return controller
        job = self.view(job_id)
        raise HttpError(HTTPStatus.CONFLICT, f"job '{job.name}' ({job_id}) is {job.status.name}")

    def _unknown(self, job_id: str) -> HttpError:
        with self._lock:
            known = [*self._running, *self._ended]
        names = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
        return HttpError(
            HTTPStatus.NOT_FOUND,
            f"unknown job {job_id}",
            f"hint: the jobs of this process are {names}"
            if known
            else "hint: this process has no jobs",
        )
