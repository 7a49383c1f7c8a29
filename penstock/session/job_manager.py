"""The JobManager process of a session: a Dispatcher behind the REST API, alone or as one of several of which one leads."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from penstock import options
from penstock.errors import ConfigurationError
from penstock.jobmanager.dispatcher.dispatcher import Dispatcher
from penstock.jobmanager.dispatcher.job_store import FileJobStore, JobStore, MemoryJobStore
from penstock.jobmanager.dispatcher.submission import Submission
from penstock.jobmanager.high_availability.leader_campaign import LeaderCampaign
from penstock.jobmanager.high_availability.services import HighAvailability
from penstock.jobmanager.job import Job
from penstock.jobmanager.resources.resource_manager import ResourceManager
from penstock.jobmanager.running.cluster import Cluster
from penstock.options.configuration import Configuration
from penstock.rest.security.tokens import TOKEN_VARIABLE
from penstock.rest.server.endpoint import Binding, Endpoint
from penstock.rest.services.job_session import PROGRAM
from penstock.time import clock

_log = logging.getLogger(__name__)


class SessionCluster:
    """Where the jobs of a session run: what gives each its cluster, and what is started and stopped around them."""

    def __init__(
        self,
        name: str,
        create_cluster: Callable[[Job], Cluster],
        resources: ResourceManager,
        *,
        capacity: Callable[[], int],
        start: Callable[[], None] = lambda: None,
        stop: Callable[[], None] = lambda: None,
        describe: Callable[[], dict[str, Any]] = dict,
        where: Callable[[], str] = lambda: "in the process of the session",
    ) -> None:
        self.name = name
        self.create_cluster = create_cluster
        self.resources = resources
        self.capacity = capacity
        self.start = start
        self.stop = stop
        self.describe = describe
        #: For the line at the start of a job
        self.where = where


class JobManager:
    """A session: takes jobs and runs them, until it is shut down."""

    def __init__(self, configuration: Configuration, place: SessionCluster) -> None:
        self._configuration = configuration
        self._place = place
        self._endpoint = Endpoint(program=PROGRAM)
        self._started_ms = clock.now_ms()
        self._over = threading.Event()
        self._keeps_jobs = False
        services = HighAvailability.from_configuration(configuration)
        if services is not None:
            services.check_storage()
            configuration = services.with_shared_checkpoints(configuration)
        self._dispatcher = Dispatcher(
            _store(services),
            self._endpoint.services.jobs,
            place.create_cluster,
            configuration,
            where=place.where,
            when_served=self._tell_page,
        )
        self._campaign = (
            None
            if services is None
            else LeaderCampaign(services, on_granted=self._lead, on_revoked=self._stand_by)
        )

    def start(self) -> str:
        """Listen for clients, and take jobs at once or when this process is elected; return the address."""
        self._endpoint.services.session = self
        if self._campaign is None:
            self._lead(None)
        else:
            self._endpoint.services.elsewhere = self._campaign.elsewhere
            if TOKEN_VARIABLE not in os.environ:
                self._endpoint.token = self._campaign.shared_token(self._endpoint.token)
        self._endpoint.ensure_started(Binding.from_configuration(self._configuration))
        server = self._endpoint.server
        if server is None:
            self._place.stop()
            raise ConfigurationError(
                "the session cannot listen for clients",
                hint="set rest.port to another port, or remove it to use any free port",
            )
        self._endpoint.reporters.ensure_started(self._configuration, self._endpoint.services)
        if self._campaign is not None:
            self._campaign.start(server.client_address)
            if self._campaign.services.warm:
                threading.Thread(
                    target=self._place.start, name="penstock-warm-up", daemon=True
                ).start()
        return server.client_address

    def _tell_page(self, tell: Callable[[str], None]) -> None:
        page = self._endpoint.base_address()
        if page is not None:  # jobs of another leader are resumed before this process listens
            tell(page)

    def _lead(self, token: int | None) -> None:
        if self._over.is_set():  # it gives the place up again in a moment
            return
        try:
            self._place.start()
            self._dispatcher.recover(token)
        except Exception:
            # Another JobManager may succeed; a leader that does nothing would block it.
            self.shut_down(keeps_jobs=True)
            raise

    def _stand_by(self) -> None:
        self._dispatcher.suspend()
        if self._campaign is None or not self._campaign.services.warm:
            self._place.stop()  # the next leader needs the executors

    # What clients ask for

    def submit(self, submission: Submission) -> str:
        """Start the job of a submission, and return its id."""
        return self._dispatcher.submit(submission)

    def ignored_options(self, submission: Submission) -> list[str]:
        """Return the options of a submission that have no effect, as they are the session's."""
        return self._dispatcher.ignored_options(submission)

    def describe(self) -> dict[str, Any]:
        """Return the description of the session as JSON data."""
        leads = self._campaign is None or self._campaign.leads
        if leads:
            self._place.resources.observe(self._place.capacity())
        use = self._place.resources.use()
        return {
            "phase": "leading" if leads else "standby",
            "pid": os.getpid(),
            "start_ms": self._started_ms,
            "place": self._place.name,
            "spark": self._place.describe() if leads else {},
            "parallelism": self._configuration.get(options.PARALLELISM) or 1,
            "leader": None if self._campaign is None else self._campaign.elsewhere(),
            "jobs": self._dispatcher.jobs(),
            "slots": {
                "total": use.total,
                "free": use.free,
                "held": dict(use.held),
                "sharing": sorted(use.sharing),
                "waiting": use.waiting,
            },
        }

    def shut_down(self, *, keeps_jobs: bool) -> None:
        """End the process, soon."""
        self._keeps_jobs = keeps_jobs
        self._over.set()

    # The end

    def wait(self) -> None:
        """Wait for the shutdown, then end the jobs and release all resources."""
        while not self._over.wait(0.5):  # in pieces, so that signals are seen
            pass
        self.close(keeps_jobs=self._keeps_jobs)

    def close(self, *, keeps_jobs: bool, timeout_s: float = 20.0) -> None:
        """End the jobs and release all resources."""
        started = time.monotonic()
        if not keeps_jobs and (self._campaign is None or self._campaign.leads):
            self._dispatcher.cancel_all(timeout_s)
        self._dispatcher.close(timeout_s)
        if self._campaign is not None:
            self._campaign.close()
        self._endpoint.close(2.0)
        self._place.stop()
        _log.info("the session stopped within %.1f s", time.monotonic() - started)


def _store(services: HighAvailability | None) -> JobStore:
    if services is None:
        return MemoryJobStore()
    return FileJobStore(services.storage.path("jobs"))
