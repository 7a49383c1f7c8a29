"""Submissions of small programs, and a Dispatcher whose jobs run in threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from penstock.client import executors
from penstock.common.job_id import JobID
from penstock.datastream import StreamExecutionEnvironment
from penstock.jobmanager.dispatcher.dispatcher import Dispatcher
from penstock.jobmanager.dispatcher.job_store import JobStore, MemoryJobStore
from penstock.jobmanager.dispatcher.packing import pack_program
from penstock.jobmanager.dispatcher.submission import Submission
from penstock.jobmanager.running.thread_cluster import ThreadCluster
from penstock.options.configuration import Configuration


class Packing:
    """An executor that makes submissions of programs and runs none."""

    def __init__(self, job_id: str | None = None) -> None:
        self.job_id = job_id
        self.submission: Submission | None = None

    def submit(
        self, transformations: Any, settings: Any, configuration: Any, job_name: str, **_: Any
    ) -> Any:
        self.submission = Submission(
            self.job_id or str(JobID()),
            job_name,
            pack_program(transformations, settings),
            configuration.to_dict(),
        )
        return self


def submission_of(
    define: Callable[[StreamExecutionEnvironment], Any],
    options: Mapping[str, str] | None = None,
    *,
    name: str = "a job",
    job_id: str | None = None,
) -> Submission:
    """What a client would send for the program that `define` writes into an environment."""
    environment = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"parallelism.default": "1", **(options or {})})
    )
    define(environment)
    packing = Packing(job_id)
    before = executors.set_executor(packing)
    try:
        environment.execute_async(name)
    finally:
        executors.set_executor(before)
    assert packing.submission is not None
    return packing.submission


class Registry:
    """Remembers what a Dispatcher made visible, and how it ended."""

    def __init__(self) -> None:
        self.controllers: dict[str, Any] = {}
        self.withdrawn: list[str] = []
        self._changed = threading.Condition()

    def publish(self, controller: Any) -> None:
        self.controllers[str(controller.get_job_id())] = controller

    def withdraw(self, controller: Any) -> None:
        with self._changed:
            self.withdrawn.append(str(controller.get_job_id()))
            self._changed.notify_all()

    def wait_for_end(self, job_id: str, seconds: float = 20) -> str:
        """Wait until a job has ended, and return its last status."""
        with self._changed:
            assert self._changed.wait_for(lambda: job_id in self.withdrawn, seconds)
        return str(self.controllers[job_id].get_job_status().name)


def create_dispatcher(
    store: JobStore | None = None, registry: Registry | None = None
) -> tuple[Dispatcher, JobStore, Registry]:
    """A Dispatcher that does not lead yet."""
    store, registry = store or MemoryJobStore(), registry or Registry()
    return Dispatcher(store, registry, lambda _: ThreadCluster()), store, registry
