"""The Dispatcher: accepts jobs from clients, keeps them in a job store, and runs each with a JobMaster in this process."""

from __future__ import annotations

import enum
import hashlib
import logging
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from msgspec import structs

from penstock.errors import FencedError, JobRequestError
from penstock.jobmanager.controller import LocalJobController
from penstock.jobmanager.dispatcher.job_store import JobStore
from penstock.jobmanager.dispatcher.packing import unpack_program
from penstock.jobmanager.dispatcher.session_options import ignored_options, options_of_job
from penstock.jobmanager.dispatcher.submission import FILES, Submission
from penstock.jobmanager.job import Job
from penstock.jobmanager.job_creation import create_job
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.jobmanager.metrics.line_progress import WhenServed, not_served
from penstock.jobmanager.metrics.progress_displays import create_session_progress
from penstock.jobmanager.metrics.progress_lines import ProgressRecorder
from penstock.jobmanager.running.cluster import Cluster
from penstock.options.configuration import Configuration
from penstock.processes import temporary

_log = logging.getLogger(__name__)


class NotLeaderError(JobRequestError):
    """This JobManager does not accept jobs: it is not the leader."""


class JobRegistry(Protocol):
    """The registry of visible jobs: the REST API's `PublishedJobs`."""

    def publish(self, controller: LocalJobController, /) -> None:
        """Add a job. A job that resumes an ended one under the same id replaces it."""

    def withdraw(self, controller: LocalJobController, /) -> None:
        """Release a job. It stays visible if it has ended."""


class DispatcherPhase(enum.Enum):
    """The phase of a Dispatcher: a standby until `recover`, and again after `suspend`."""

    STANDBY = "standby"
    LEADING = "leading"
    CLOSED = "closed"


@dataclass(slots=True)
class _RunningJob:
    """A started job, its submission, and the directory of its files."""

    controller: LocalJobController
    digest: str
    directory: str | None
    ended: Future[None] = field(default_factory=Future)


class Dispatcher:
    """Accepts jobs and runs each with a JobMaster in its own thread.

    A job is in the store from before its start until it reaches a terminal state. A failed job does not affect the others. A
    Dispatcher is a standby until `recover` makes it the leader and starts the jobs in the store; `suspend` suspends the jobs, so
    that another Dispatcher resumes them. All methods may be called from any thread.
    """

    def __init__(
        self,
        store: JobStore,
        registry: JobRegistry,
        create_cluster: Callable[[Job], Cluster],
        configuration: Configuration | None = None,
        *,
        where: Callable[[], str] = lambda: "in the process of the session",
        when_served: WhenServed = not_served,
    ) -> None:
        self._store = store
        self._registry = registry
        self._create_cluster = create_cluster
        self._configuration = configuration or Configuration()
        #: For the lines that tell the progress of jobs: what runs them, and the address of the page
        self._where = where
        self._when_served = when_served
        self._lock = threading.RLock()
        self._jobs: dict[str, _RunningJob] = {}
        self.phase = DispatcherPhase.STANDBY
        self._leader: int | None = None

    # Starting jobs

    def submit(self, submission: Submission) -> str:
        """Start a job and return its id; when this returns, the job is in the store.

        Submitting twice has no effect, so a client may repeat a submission that got no response. The id differs from the
        submission's if the job resumes from the checkpoints of an earlier one.
        """
        with self._lock:
            self._check_leading()
            known = self._jobs.get(submission.job_id)
            if known is not None:
                return self._known(submission, known)
            started = self._prepare(submission)
            job_id = str(started.controller.get_job_id())
            named = structs.replace(submission, job_id=job_id)
            if job_id in self._jobs:
                self._discard(started)
                return self._known(named, self._jobs[job_id])
            self._store.put(named)
            self._start(started)
            return job_id

    def recover(self, leader: int | None = None) -> list[str]:
        """Become the leader and start the jobs in the store; return their ids. A job that cannot be started stays in the store.

        `leader` is the fencing token of an elected leader: it fences off all leaders that were elected before.
        """
        with self._lock:
            if self.phase is DispatcherPhase.CLOSED:
                raise NotLeaderError("the JobManager is shutting down")
            self.phase = DispatcherPhase.LEADING
            self._leader = leader
            for submission in self._store.all():
                if submission.job_id in self._jobs:
                    continue
                try:
                    self._start(self._prepare(submission))
                except Exception:  # noqa: BLE001 - logged; it must not affect other jobs
                    _log.exception(
                        "job '%s' (%s) cannot be started", submission.name, submission.job_id
                    )
            return list(self._jobs)

    def _prepare(self, submission: Submission) -> _RunningJob:
        """Return a job that is ready to start."""
        directory = _write_files(submission)
        try:
            program = unpack_program(submission.program)
            configuration = self._configuration_of(submission, directory)
            job = create_job(
                program.transformations,
                program.settings,
                configuration,
                submission.name,
                job_id=submission.job_id,
            )
            job = replace(job, leader=self._leader)
            recorder = ProgressRecorder()
            progress = create_session_progress(
                job.name, configuration, self._where(), self._when_served, recorder.say
            )
            controller = LocalJobController(
                JobMaster(job, progress, self._create_cluster(job), recorder=recorder)
            )
        except BaseException:
            _delete(directory)
            raise
        return _RunningJob(controller, _digest(submission), directory)

    def _configuration_of(self, submission: Submission, directory: str | None) -> Configuration:
        """Return a job's options, with the paths of its files."""
        own = submission.configuration
        if directory is not None:
            own = {key: value.replace(FILES, f"{directory}/") for key, value in own.items()}
        return options_of_job(self._configuration, own)

    def ignored_options(self, submission: Submission) -> list[str]:
        """Return the options of a job that have no effect because the session sets them."""
        return ignored_options(self._configuration, submission.configuration)

    def _start(self, started: _RunningJob) -> None:
        controller = started.controller
        self._jobs[str(controller.get_job_id())] = started
        self._registry.publish(controller)
        controller.get_job_execution_result().add_done_callback(
            lambda result: self._ended(started, result)
        )
        controller.start()

    def _known(self, submission: Submission, known: _RunningJob) -> str:
        if known.digest == _digest(submission):
            return str(known.controller.get_job_id())
        raise JobRequestError(
            f"job {submission.job_id} is already running",
            detail=f"it is '{known.controller.master.job.name}', and a different program was submitted with its id",
            hint="cancel or stop the running job, or remove penstock.job-id",
        )

    # Ending jobs

    def _ended(self, started: _RunningJob, result: Future[Any]) -> None:
        """Remove a job in a terminal state; a suspended job stays in the store for the next leader."""
        controller = started.controller
        job_id = str(controller.get_job_id())
        try:
            fenced = isinstance(result.exception(), FencedError)
            over = controller.get_job_status().is_globally_terminal_state() and not fenced
            with self._lock:
                leading = self.phase is DispatcherPhase.LEADING
                if self._jobs.get(job_id) is started:
                    del self._jobs[job_id]
            if over and leading:
                self._store.remove(job_id)
            self._registry.withdraw(controller)
        except Exception:  # noqa: BLE001 - logged; it must not affect other jobs
            _log.exception("job %s has ended, but could not be removed from the job store", job_id)
        finally:
            _delete(started.directory)
            started.ended.set_result(None)

    def suspend(self, timeout_s: float = 30.0) -> None:
        """Become a standby: suspend all jobs, so that another JobManager resumes them from their last checkpoints."""
        self._stop(DispatcherPhase.STANDBY, timeout_s)

    def close(self, timeout_s: float = 30.0) -> None:
        """Accept no more jobs and suspend all. They stay in the store; call `cancel_all` first to end them."""
        self._stop(DispatcherPhase.CLOSED, timeout_s)

    def _stop(self, phase: DispatcherPhase, timeout_s: float) -> None:
        with self._lock:
            if self.phase is not DispatcherPhase.CLOSED:
                self.phase = phase
            jobs = list(self._jobs.values())
        for started in jobs:
            started.controller.suspend()
        _wait_for(jobs, timeout_s)

    def cancel_all(self, timeout_s: float = 30.0) -> None:
        """Cancel all jobs and wait until they have ended."""
        with self._lock:
            jobs = list(self._jobs.values())
        for started in jobs:
            started.controller.cancel()
        _wait_for(jobs, timeout_s)

    def jobs(self) -> list[str]:
        """Return the ids of the jobs that have not ended."""
        with self._lock:
            return list(self._jobs)

    def _check_leading(self) -> None:
        if self.phase is DispatcherPhase.LEADING:
            return
        if self.phase is DispatcherPhase.CLOSED:
            raise NotLeaderError("the JobManager is shutting down", hint="start another session")
        raise NotLeaderError(
            "this JobManager is a standby", hint="submit the job to the leader of the session"
        )

    def _discard(self, started: _RunningJob) -> None:
        checkpoints = started.controller.master.job.checkpoints
        if checkpoints.temporary:
            _delete(checkpoints.directory)
        _delete(started.directory)


def _wait_for(jobs: Sequence[_RunningJob], timeout_s: float) -> None:
    """Wait until jobs have ended, for at most `timeout_s` in total; log those that have not."""
    until = time.monotonic() + timeout_s
    for started in jobs:
        try:
            started.ended.result(max(0.0, until - time.monotonic()))
        except TimeoutError:
            name = started.controller.master.job.name
            _log.error("job '%s' did not end within %g s", name, timeout_s)


def _write_files(submission: Submission) -> str | None:
    """Write the files of a submission into a new directory and return it; None if it has none."""
    if not submission.files:
        return None
    directory = temporary.create_directory("submission")
    for name, content in submission.files.items():
        path = Path(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return directory


def _delete(directory: str | None) -> None:
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)


def _digest(submission: Submission) -> str:
    """Return a digest that distinguishes programs with the same job id."""
    return hashlib.sha256(submission.program).hexdigest()
