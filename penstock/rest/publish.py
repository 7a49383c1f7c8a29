"""Makes the jobs of this process reachable for the command line and the REST API.

A job must not wait for this, so it only notes the job and starts a thread, and imports nothing else: the server's modules
take longer to import than a small job may be delayed.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from typing import TYPE_CHECKING

from penstock.common import options
from penstock.common.configuration import Configuration

if TYPE_CHECKING:
    from penstock.rest.endpoint import Endpoint
    from penstock.rest.published_jobs import Controller

# How long the end of the process waits for a client that has asked for a savepoint and polls for its path
EXIT_PATIENCE_S = 2.0

_log = logging.getLogger(__name__)


class Publisher:
    """The one of this process: creates its endpoint when the first job comes, and closes it at exit."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.endpoint: Endpoint | None = None
        self._waiting: list[tuple[Controller, Configuration]] = []
        self._working = threading.Lock()
        self._closed = False

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
        self.endpoint.services.jobs.publish(controller)
        self.endpoint.ensure_started(Binding.from_configuration(configuration))

    def withdraw(self, controller: Controller) -> None:
        """Let go of a job. One that was not published yet is let go of when others look."""
        if self.endpoint is not None:
            self.endpoint.services.jobs.withdraw(controller)

    def close(self, patience_s: float = EXIT_PATIENCE_S) -> None:
        """Publish no more, remove what leads clients here, and wait for those who wait for a result."""
        if self.pid != os.getpid() or not self._working.acquire(timeout=1):
            return
        try:
            self._closed = True
            if self.endpoint is not None:
                self.endpoint.close(patience_s)
        finally:
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
