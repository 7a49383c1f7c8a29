"""Makes the jobs of this process reachable for the command line and the REST API.

A job must not wait for this, so it only notes the job and starts a thread, and imports nothing else: the server's modules
take longer to import than a small job may be delayed.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from typing import TYPE_CHECKING, Protocol

from penstock.common import options
from penstock.common.configuration import Configuration

if TYPE_CHECKING:
    from penstock.rest.endpoint import Endpoint
    from penstock.rest.published_jobs import Controller

# How long the end of the process waits for a client that has asked for a savepoint and polls for its path
EXIT_PATIENCE_S = 2.0
# How long it waits for a job that is just being published
PUBLISHING_PATIENCE_S = 1.0

_log = logging.getLogger(__name__)


class Candidate(Protocol):
    """One of several processes of a cluster, of which one leads."""

    def elsewhere(self) -> str | None:
        """Return None if this process leads, else the leader's address, or an empty text if it is not known. Never waits."""

    def shared_token(self, own: str) -> str:
        """Return the token for clients of all these processes; `own` if this is the first one."""


class Publisher:
    """The one of this process: creates its endpoint when the first job comes, and closes it at exit."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.endpoint: Endpoint | None = None
        self._waiting: list[tuple[Controller, Configuration]] = []
        self._working = threading.Lock()
        self._closed = False
        self._served = threading.Event()

    def publish(self, controller: Controller, configuration: Configuration) -> None:
        """Note a job, and see to it in the background."""
        self._waiting.append((controller, Configuration(configuration)))
        threading.Thread(target=self._publish_waiting, name="penstock-publish", daemon=True).start()

    def _publish_waiting(self) -> None:
        with self._working:
            while self._waiting and not self._closed:
                controller, configuration = self._waiting.pop(0)
                try:
                    self._publish(controller, configuration)
                except Exception as error:  # noqa: BLE001 - a job must not fail because nobody can watch it
                    _log.warning("the command line cannot reach the job: %s", error)

    def _publish(self, controller: Controller, configuration: Configuration) -> None:
        from penstock.rest.endpoint import Binding, Endpoint

        if self.endpoint is None:
            self.endpoint = Endpoint()
        if self._closed:  # `close` may have come before there was an endpoint to close
            return
        self.endpoint.services.jobs.publish(controller)
        self.endpoint.ensure_started(Binding.from_configuration(configuration))
        self._served.set()
        self.endpoint.reporters.ensure_started(configuration, self.endpoint.services)

    def page_address(self, patience_s: float) -> str | None:
        """Return where the web page is, with the token that logs in who opens it; None if it is nowhere in time."""
        if not self._served.wait(patience_s) or self.endpoint is None:
            return None
        return self.endpoint.page_address()

    def serve(self, candidate: Candidate, configuration: Configuration) -> str:
        """Answer clients from now on, or send them to the leader; return the address."""
        from penstock.rest.announcing import announce
        from penstock.rest.endpoint import TOKEN_VARIABLE, Binding, Endpoint

        with self._working:
            if self.endpoint is None:
                self.endpoint = Endpoint()
            endpoint = self.endpoint
            if TOKEN_VARIABLE not in os.environ:
                endpoint.token = candidate.shared_token(endpoint.token)
            endpoint.services.elsewhere = candidate.elsewhere
            endpoint.ensure_started(Binding.from_configuration(configuration))
            self._served.set()
            if endpoint.server is None:
                return ""
            address = endpoint.server.client_address
            announce(candidate.elsewhere, address, endpoint.token, endpoint.server.scheme)
            return address

    def withdraw(self, controller: Controller) -> None:
        """Let go of a job. One that was not published yet is let go of when others look."""
        if self.endpoint is not None:
            self.endpoint.services.jobs.withdraw(controller)

    def close(self, patience_s: float = EXIT_PATIENCE_S) -> None:
        """Publish no more, remove what leads clients here, and wait for those who wait for a result."""
        if self.pid != os.getpid():
            return
        self._closed = True
        idle = self._working.acquire(timeout=PUBLISHING_PATIENCE_S)
        try:
            if self.endpoint is not None:
                self.endpoint.close(patience_s if idle else 0.0)
        finally:
            if idle:
                self._working.release()


_creating = threading.Lock()
_publisher: Publisher | None = None


def publisher() -> Publisher:
    """Return the publisher of this process. A fork has neither the threads nor the files of its parent's."""
    global _publisher
    with _creating:
        if _publisher is None or _publisher.pid != os.getpid():
            _publisher = Publisher()
            atexit.register(_publisher.close)
        return _publisher


def serve(candidate: Candidate, configuration: Configuration) -> str:
    """Make this process reachable as one of several, of which one leads; return its address, empty if it is to have none."""
    if not configuration.get(options.REST_ENABLED):
        return ""
    return publisher().serve(candidate, configuration)


def page_address(patience_s: float = 60.0) -> str | None:
    """Return the address of this process's web page, once a job of it is reachable; None if none is in time.

    Who opens it can also change jobs: the token is in the address, in the part that browsers keep to themselves.
    """
    return publisher().page_address(patience_s)


def publish(controller: Controller, configuration: Configuration) -> None:
    """Make a job reachable for the command line and the REST API; never fails, hardly takes time."""
    try:
        if configuration.get(options.REST_ENABLED):
            publisher().publish(controller, configuration)
    except Exception as error:  # noqa: BLE001 - as above
        _log.warning("the command line cannot reach the job: %s", error)


def withdraw(controller: Controller) -> None:
    """Tell that a job has ended: it stays visible, and what it used is let go of."""
    try:
        publisher().withdraw(controller)
    except Exception as error:  # noqa: BLE001 - as above
        _log.warning("a job that ended could not be withdrawn: %s", error)
