"""Makes the jobs of this process reachable for the command line and the REST API.

A job must not wait for this, so `publish` only queues the job and starts a thread, and this module imports nothing else: importing
the server's modules would delay a small job noticeably.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from penstock import options
from penstock.options.configuration import Configuration

if TYPE_CHECKING:
    from penstock.rest.server.endpoint import Endpoint
    from penstock.rest.services.published_jobs import Controller

# How long the process waits at exit for a client that has triggered a savepoint and polls for its path
EXIT_TIMEOUT_S = 2.0
# How long it waits for a job that is being published
PUBLISHING_TIMEOUT_S = 1.0

_log = logging.getLogger(__name__)


class ClusterMember(Protocol):
    """One of several JobManager processes of a cluster, of which one is the leader."""

    def elsewhere(self) -> str | None:
        """Return None if this process is the leader, else the leader's address, or an empty string if unknown. Never blocks."""

    def shared_token(self, own: str) -> str:
        """Return the token that all processes of the cluster share; `own` if this is the first one."""


class Publisher:
    """The publisher of this process: creates the endpoint for the first job, and closes it at exit."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.endpoint: Endpoint | None = None
        self._waiting: list[tuple[Controller, Configuration]] = []
        self._working = threading.Lock()
        self._closed = False
        self._served = threading.Event()
        #: Guards what waits for the page
        self._listening = threading.Lock()
        self._listeners: list[Callable[[str], None]] = []

    def publish(self, controller: Controller, configuration: Configuration) -> None:
        """Queue a job and publish it in the background."""
        self._waiting.append((controller, Configuration(configuration)))
        threading.Thread(target=self._publish_waiting, name="penstock-publish", daemon=True).start()

    def _publish_waiting(self) -> None:
        with self._working:
            while self._waiting and not self._closed:
                controller, configuration = self._waiting.pop(0)
                try:
                    self._publish(controller, configuration)
                except Exception as error:  # noqa: BLE001 - a job must not fail because it cannot be published
                    _log.warning("the job is not reachable for the command line: %s", error)

    def _publish(self, controller: Controller, configuration: Configuration) -> None:
        from penstock.rest.server.endpoint import Binding, Endpoint

        if self.endpoint is None:
            self.endpoint = Endpoint()
        if self._closed:  # `close` may have run before the endpoint existed
            return
        self.endpoint.services.jobs.publish(controller)
        self.endpoint.ensure_started(Binding.from_configuration(configuration))
        self._announce(self.endpoint)
        self.endpoint.reporters.ensure_started(configuration, self.endpoint.services)

    def _announce(self, endpoint: Endpoint) -> None:
        """Note that clients are answered, and tell those that wait for the address of the page."""
        with self._listening:
            self._served.set()
            listeners, self._listeners = self._listeners, []
        address = endpoint.base_address()
        if address is not None:
            for tell in listeners:
                tell(address)

    def when_served(self, tell: Callable[[str], None]) -> None:
        """Call a function with the address of the page, without a token: at once if there is one, else as soon as there is."""
        with self._listening:
            if not self._served.is_set():
                self._listeners.append(tell)
                return
        address = None if self.endpoint is None else self.endpoint.base_address()
        if address is not None:
            tell(address)

    def page_address(self, timeout_s: float) -> str | None:
        """Return the address of the web page, with the token that logs in; None if there is none within `timeout_s`."""
        if not self._served.wait(timeout_s) or self.endpoint is None:
            return None
        return self.endpoint.page_address()

    def serve(self, candidate: ClusterMember, configuration: Configuration) -> str:
        """Start to answer clients, or redirect them to the leader; return the address."""
        from penstock.rest.client.standby_announcement import announce
        from penstock.rest.security.tokens import TOKEN_VARIABLE
        from penstock.rest.server.endpoint import Binding, Endpoint

        with self._working:
            if self.endpoint is None:
                self.endpoint = Endpoint()
            endpoint = self.endpoint
            if TOKEN_VARIABLE not in os.environ:
                endpoint.token = candidate.shared_token(endpoint.token)
            endpoint.services.elsewhere = candidate.elsewhere
            endpoint.ensure_started(Binding.from_configuration(configuration))
            self._announce(endpoint)
            if endpoint.server is None:
                return ""
            address = endpoint.server.client_address
            announce(candidate.elsewhere, address, endpoint.token, endpoint.server.scheme)
            return address

    def withdraw(self, controller: Controller) -> None:
        """Release an ended job. If it is not published yet, it is released later, when jobs are listed."""
        if self.endpoint is not None:
            self.endpoint.services.jobs.withdraw(controller)

    def close(self, timeout_s: float = EXIT_TIMEOUT_S) -> None:
        """Stop publishing, remove the process file, and wait for clients that wait for a result."""
        if self.pid != os.getpid():
            return
        self._closed = True
        idle = self._working.acquire(timeout=PUBLISHING_TIMEOUT_S)
        try:
            if self.endpoint is not None:
                self.endpoint.close(timeout_s if idle else 0.0)
        finally:
            if idle:
                self._working.release()


_creating = threading.Lock()
_publisher: Publisher | None = None


def publisher() -> Publisher:
    """Return the publisher of this process. A forked process gets a new one, because it has neither the threads nor the files of its parent."""
    global _publisher
    with _creating:
        if _publisher is None or _publisher.pid != os.getpid():
            _publisher = Publisher()
            atexit.register(_publisher.close)
        return _publisher


def serve(candidate: ClusterMember, configuration: Configuration) -> str:
    """Make this process reachable as one of several JobManagers; return its address, empty if it has no REST server."""
    if not configuration.get(options.REST_ENABLED):
        return ""
    return publisher().serve(candidate, configuration)


def page_address(timeout_s: float = 60.0) -> str | None:
    """Return the address of this process's web page, once a job is published; None if none is within `timeout_s`.

    It grants write access: the token is in the fragment of the address, which browsers do not send.
    """
    return publisher().page_address(timeout_s)


def when_served(tell: Callable[[str], None]) -> None:
    """Call a function with the address of this process's web page, once there is one; the address has no token."""
    publisher().when_served(tell)


def publish(controller: Controller, configuration: Configuration) -> None:
    """Make a job reachable for the command line and the REST API; never fails and returns at once."""
    try:
        if configuration.get(options.REST_ENABLED):
            publisher().publish(controller, configuration)
    except Exception as error:  # noqa: BLE001 - as above
        _log.warning("the job is not reachable for the command line: %s", error)


def withdraw(controller: Controller) -> None:
    """Release the resources of an ended job. It stays visible."""
    try:
        publisher().withdraw(controller)
    except Exception as error:  # noqa: BLE001 - as above
        _log.warning("a job that ended could not be withdrawn: %s", error)
