"""The process behind `penstock session start`: reads its options from standard input and runs a JobManager until it is shut down."""

from __future__ import annotations

import json
import logging
import signal
import sys
from typing import Any

from penstock import options
from penstock.client.spark_executor import spark_of
from penstock.errors import ConfigurationError
from penstock.jobmanager.high_availability.services import HighAvailability
from penstock.jobmanager.resources.resource_manager import resource_manager
from penstock.jobmanager.running.thread_cluster import ThreadCluster
from penstock.logs.setup import log_in_jobmanager
from penstock.options.configuration import Configuration
from penstock.session.job_manager import JobManager, SessionCluster

# Options of sessions only: FAIR scheduling gives the jobs equal shares of the free cores.
_SESSION_OPTIONS = {"spark.app.name": "penstock session", "spark.scheduler.mode": "FAIR"}


def spark_place(configuration: Configuration) -> SessionCluster:
    """Return Spark as the place where a session's jobs run: one application for all of them."""
    from penstock.spark import session

    given = {**session.STAGE_DEFAULTS, **options.spark_options(configuration)}

    def start() -> None:
        session.get_context(given)

    def describe() -> dict[str, Any]:
        context = session.get_context(given)
        return {
            "master": context.master,
            "application": context.applicationId,
            "version": context.version,
            "ui": context.uiWebUrl,
        }

    def capacity() -> int:
        return session.count_tasks(session.get_context(given))

    return SessionCluster(
        "spark",
        spark_of,
        resource_manager(),
        capacity=capacity,
        start=start,
        stop=session.stop_context,
        describe=describe,
        where=lambda: f"on Spark ({session.get_context(given).master})",
    )


def thread_place(configuration: Configuration) -> SessionCluster:
    """Return the threads of this process as the place where a session's jobs run, to try them out without Spark."""
    slots, resources = configuration.get(options.TASK_SLOTS), resource_manager()
    return SessionCluster(
        "threads",
        lambda _: ThreadCluster(slots, resources),
        resources,
        capacity=lambda: slots or 0,
    )


def main() -> int:
    """Run the session that standard input describes, until it is shut down."""
    given = json.load(sys.stdin)
    try:
        return run(given["options"], spark=given["spark"])
    except ConfigurationError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


def run(given: dict[str, str], *, spark: bool) -> int:
    """Run a session in this process, until it is shut down."""
    configuration = Configuration.from_dict({**_SESSION_OPTIONS, **given})
    logging.getLogger().setLevel(logging.INFO)
    form, directory = configuration.get(options.LOG_FORMAT), configuration.get(options.LOG_DIR)
    log_in_jobmanager(form, directory, logging.INFO)
    place = spark_place(configuration) if spark else thread_place(configuration)
    manager = JobManager(configuration, place)
    keeps_jobs = HighAvailability.from_configuration(configuration) is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: manager.shut_down(keeps_jobs=keeps_jobs))
    address = manager.start()
    sys.stdout.write(f"the session listens at {address}\n")
    sys.stdout.flush()
    manager.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
