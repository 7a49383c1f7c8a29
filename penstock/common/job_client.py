"""JobClient: the handle of a job that was submitted."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from penstock.common.completable_future import CompletableFuture
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus


class JobController(Protocol):
    """What runs a job, as its client sees it.

    Methods return the value itself, a concurrent.futures.Future or a CompletableFuture of it.
    """

    def get_job_id(self) -> JobID:
        """Return the job's identity."""

    def get_job_status(self) -> Any:
        """Return the JobStatus."""

    def cancel(self) -> Any:
        """Cancel the job; done when it is cancelled."""

    def get_accumulators(self) -> Any:
        """Return the accumulators by name."""

    def get_job_execution_result(self) -> Any:
        """Return the JobExecutionResult; done when the job is."""

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None
    ) -> Any:
        """Stop the job with a savepoint and return its path."""

    def trigger_savepoint(self, savepoint_directory: str | None) -> Any:
        """Take a savepoint and return its path."""

    def rescale(self, parallelism: int | Mapping[str, int]) -> Any:
        """Change the parallelism and return it by vertex name."""


class JobClient:
    """The handle of a job that was submitted. Answers come as futures."""

    def __init__(self, controller: JobController) -> None:
        self._controller = controller

    def _ask(self, method: str, *arguments: Any) -> CompletableFuture[Any]:
        try:
            answer = getattr(self._controller, method)(*arguments)
        except Exception as error:  # noqa: BLE001  the caller gets it from the future
            return CompletableFuture.failed(error)
        if isinstance(answer, CompletableFuture):
            return answer
        if isinstance(answer, Future):
            return CompletableFuture(answer)
        return CompletableFuture.completed(answer)

    def get_job_id(self) -> JobID:
        """Return the job's identity."""
        return self._controller.get_job_id()

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Ask for the job's status."""
        return self._ask("get_job_status")

    def cancel(self) -> CompletableFuture[None]:
        """Cancel the job."""
        return self._ask("cancel")

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Stop the job with a savepoint; the result is the savepoint's path.

        With `advance_to_end_of_event_time` the watermark goes to its maximum first, so that all windows fire.
        """
        return self._ask("stop_with_savepoint", advance_to_end_of_event_time, savepoint_directory)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint; the result is its path."""
        return self._ask("trigger_savepoint", savepoint_directory)

    def rescale(self, parallelism: int | Mapping[str, int]) -> CompletableFuture[dict[str, int]]:
        """Change the parallelism of the running job; PyFlink has no such thing.

        In epochs it changes from the next one on. A pipelined job takes a checkpoint and restarts from it.
        A number is for all operators that set no parallelism themselves; a mapping names operators by uid, name or id.
        The result is the parallelism by vertex name, and is available when the job runs with it.
        """
        return self._ask("rescale", parallelism)

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Ask for the job's accumulators."""
        return self._ask("get_accumulators")

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Ask for the result of the job; it comes when the job ends."""
        return self._ask("get_job_execution_result")


__all__ = ["JobClient", "JobController"]
