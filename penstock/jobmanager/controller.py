"""Runs a JobMaster in a thread of this process and gives access to its job."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.errors import (
    JobCancelledError,
    JobExecutionError,
    JobInterrupted,
    PenstockError,
)
from penstock.graph.task_id import TaskId
from penstock.jobmanager.diagnosis.diagnosable_job import examine
from penstock.jobmanager.diagnosis.findings import Diagnosis
from penstock.jobmanager.job_description import describe_job, total_accumulators
from penstock.jobmanager.job_master.failures import explain_exception
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.jobmanager.job_view import JobView
from penstock.logs.scope import LogScope, working_for
from penstock.runtime.inspection.requests import InspectionRequest, SlotId, SlotInfo, SplitTime


def _hide_traceback() -> None:
    """Print an uncaught JobInterrupted without its traceback."""
    before = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, JobInterrupted):
            print(error, file=sys.stderr)
        else:
            before(kind, error, traceback)

    sys.excepthook = hook


class LocalJobController:
    """The controller of a job in this process, used by its JobClient and the REST API."""

    def __init__(self, master: JobMaster) -> None:
        self.master = master
        self._result: Future[JobExecutionResult] = Future()
        self._result.set_running_or_notify_cancel()
        self._ended: Future[None] = Future()
        self._ended.set_running_or_notify_cancel()
        self._thread = threading.Thread(
            target=self._run, name=f"penstock-{master.job.name}", daemon=True
        )

    def start(self) -> None:
        """Start the job."""
        self._thread.start()

    def _run(self) -> None:
        try:
            result = self._execute()
        except BaseException as error:  # noqa: BLE001 - the future of the result raises it
            self._result.set_exception(error)
        else:
            self._result.set_result(result)
        finally:
            self._ended.set_result(None)

    def _execute(self) -> JobExecutionResult:
        """Run the job to its end."""
        started = time.monotonic()
        job = self.master.job
        with working_for(lambda: LogScope(job.job_id, job.name)):
            self.master.run()
        runtime = int((time.monotonic() - started) * 1000)
        return JobExecutionResult(self.get_job_id(), runtime, self.get_accumulators())

    def get_job_id(self) -> JobID:
        """Return the job id."""
        return JobID.from_hex_string(self.master.job.job_id)

    def get_job_status(self) -> JobStatus:
        """Return the job's status."""
        return self.master.status

    def get_job_execution_result(self) -> Future[JobExecutionResult]:
        """Return the future of the result, done when the job has ended."""
        return self._result

    def get_accumulators(self) -> dict[str, Any]:
        """Return the metrics of all operators, summed over subtasks and completed checkpoints, as `operator.metric`."""
        return total_accumulators(self.master)

    def cancel(self) -> Future[None]:
        """Cancel the job at once."""
        self.master.cancel()
        return self._ended

    def suspend(self) -> Future[None]:
        """Suspend the job: stop it at once, so that another JobManager resumes it from its last checkpoint."""
        self.master.suspend()
        return self._ended

    def wait(self) -> JobExecutionResult:
        """Wait for the result; Ctrl-C stops the job after the current checkpoint interval, a second Ctrl-C at once."""
        interrupts = 0
        while True:
            try:
                self._thread.join(0.2)
                if not self._thread.is_alive():
                    break
            except KeyboardInterrupt:
                interrupts += 1
                self.master.cancel(graceful=interrupts == 1)
        try:
            return self._result.result()
        except (
            JobExecutionError
        ) as error:  # the traceback of the control plane would not help the user
            raise error.with_traceback(None)  # noqa: B904 - its cause is set
        except JobCancelledError:
            if interrupts:
                _hide_traceback()
                raise JobInterrupted(self._resume_message()) from None
            raise

    def _resume_message(self) -> str:
        job = self.master.job
        stopped = f"job '{job.name}' was stopped"
        if job.checkpoints.temporary or self.master.store.latest() is None:
            return stopped
        where = self.master.store.storage.base
        return f"{stopped}; to resume it, set execution.state-recovery.path to {where}"

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> Future[str]:
        """Take a savepoint while the job continues; the result is its path."""
        return self.master.request_savepoint(savepoint_directory)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> Future[str]:
        """Stop the job with a savepoint; the result is its path."""
        return self.master.request_savepoint(
            savepoint_directory, stops=True, drains=advance_to_end_of_event_time
        )

    def rescale(
        self, parallelism: int | Mapping[str, int], vertices: Mapping[str, int] | None = None
    ) -> Future[dict[str, int]]:
        """Change the parallelism after the next checkpoint; the result is the parallelism by vertex name.

        `vertices` overrides the parallelism of single vertices, by name.
        """
        return self.master.request_rescale(parallelism, vertices)

    def inspect(self, target: TaskId | SlotId, request: InspectionRequest) -> Future[Any]:
        """Send an inspection request to a running task or slot: stack samples, a thread dump, the end of its log.

        The result is described in the request's docstring; an error if the job runs in epoch mode, or the task does not run.
        """
        return self.master.inspect(target, request)

    def slots(self) -> list[SlotInfo]:
        """Return the running slots with their host, process and tasks; empty in epoch mode."""
        return self.master.slots()

    def split_times(self) -> dict[TaskId, tuple[SplitTime, ...]]:
        """Return the watermarks of the splits of sources at the last checkpoint, by task."""
        return self.master.split_times()

    def backlogs(self) -> dict[str, tuple[int, str]]:
        """Return the backlogs of unbounded sources, by vertex, with their units."""
        return self.master.backlogs()

    def diagnose(self, now_ms: int) -> Diagnosis:
        """Return the diagnosis of the job; takes about a second."""
        return examine(self, now_ms)

    def _error(self) -> str | None:
        """Return the error that the future of the result raises, if the job failed."""
        if not self._result.done():
            return None
        error = self._result.exception()
        if error is None:
            return None
        return str(error) if isinstance(error, PenstockError) else explain_exception(error)

    def view(self) -> JobView:
        """Return the view of the job."""
        return describe_job(self.master, self._error)
