"""A job of a program that several processes run: it runs in the leader, the others are standbys."""

from __future__ import annotations

import atexit
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_status import JobStatus
from penstock.errors import JobCancelledError, JobSuspendedError
from penstock.jobmanager.controller import LocalJobController
from penstock.jobmanager.high_availability.leader_campaign import LeaderCampaign
from penstock.jobmanager.high_availability.results import JobResult, JobResults
from penstock.jobmanager.high_availability.services import HighAvailability
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.options.configuration import Configuration

_TERMINATED = 128 + signal.SIGTERM  # the exit code that shells use
_AGAIN_S = 0.5  # retry delay of a leader that was fenced off

_log = logging.getLogger(__name__)


class StandbyController(LocalJobController):
    """Runs a job while this process is the leader, until the job has ended here or in another process.

    `create_master` creates a JobMaster for the leader with a token; None: one that only describes the job.
    """

    def __init__(
        self, campaign: LeaderCampaign, create_master: Callable[[int | None], JobMaster]
    ) -> None:
        super().__init__(create_master(None))
        self._campaign = campaign
        self._create_master = create_master
        self._results = JobResults(campaign.services.storage)

    def _execute(self) -> JobExecutionResult:
        job = self.master.job
        if self._campaign.services.warm:
            threading.Thread(target=self._warm_up, name="penstock-warm-up", daemon=True).start()
        while True:
            token = self._campaign.wait(self._is_cancelled)
            if token is None:
                raise JobCancelledError(f"this standby stopped waiting for job '{job.name}'")
            known = self._results.read(job.job_id, since_ms=self._campaign.started_ms)
            if known is not None:
                return known.reached(job.job_id, job.name)
            try:
                return self._lead(token)
            except JobSuspendedError as error:
                _log.warning("%s", error.message)
                self.master = self._create_master(None)
                time.sleep(_AGAIN_S)

    def _warm_up(self) -> None:
        try:
            self.master.warm_up()
        except Exception as error:  # noqa: BLE001 - tried again when the process becomes the leader
            _log.warning(
                "the standby cannot start Spark in advance, so a failover will take longer: %s",
                error,
            )

    def _lead(self, token: int) -> JobExecutionResult:
        self.master = master = self._create_master(token)
        try:
            with self._campaign.leading(token, master.suspend):
                result = super()._execute()
        except JobSuspendedError:
            raise
        except BaseException as error:
            self._results.write(master.job.job_id, JobResult.failed(error))
            raise
        self._results.write(master.job.job_id, JobResult.finished(result))
        return result

    def _is_cancelled(self) -> bool:
        return self.master.status is JobStatus.CANCELLING

    def cancel(self) -> Future[None]:
        """Cancel the job at once, also for the next leader: its result is written first, in case this process ends before."""
        name = self.master.job.name
        cancelled = JobResult.failed(JobCancelledError(f"job '{name}' was cancelled"))
        self._results.write(self.master.job.job_id, cancelled)
        return super().cancel()


# Creates a JobMaster: options, job id unless the options set one, fencing token of the leader.
CreateMaster = Callable[[Configuration, str | None, int | None], JobMaster]


def stand_by(
    campaign: LeaderCampaign, create: CreateMaster, configuration: Configuration
) -> StandbyController:
    """Return the controller of the next job of this program, which runs while this process is the leader. Checkpoints are on shared storage."""
    shared = campaign.services.with_shared_checkpoints(configuration)
    job_id = campaign.next_job_id()
    return StandbyController(campaign, lambda leader: create(shared, job_id, leader))


def _end_in_order() -> None:
    """Make SIGTERM end the program like `sys.exit`, so that a leader releases leadership and others need not wait for its lease to expire.

    As PID 1 of a container it would ignore SIGTERM otherwise.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))


_campaigns: dict[tuple[str, str, str], LeaderCampaign] = {}
_starting = threading.Lock()


def campaign_of(
    services: HighAvailability, serve: Callable[[LeaderCampaign], str]
) -> LeaderCampaign:
    """Return the campaign of this process for a cluster; `serve` starts the REST server and returns its address."""
    key = services.type, services.cluster_id, services.storage.base
    with _starting:
        campaign = _campaigns.get(key)
        if campaign is None:
            campaign = LeaderCampaign(services)
            campaign.start(serve(campaign))
            atexit.register(campaign.close)
            _end_in_order()
            _campaigns[key] = campaign
    return campaign
