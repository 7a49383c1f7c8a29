"""Programs of this process as jobs of a session elsewhere: sends them, and answers for them."""

from __future__ import annotations

import logging
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from penstock import options
from penstock.client.remote_progress import RemoteProgress
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.connectors.base.staged_sinks import CollectSink
from penstock.errors import (
    JobCancelledError,
    JobExecutionError,
    JobRequestError,
    UnsupportedOperationError,
)
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import Transformation
from penstock.jobmanager.dispatcher.attachments import attach_files
from penstock.jobmanager.dispatcher.packing import pack_program, steps_of
from penstock.jobmanager.dispatcher.submission import Submission
from penstock.options.configuration import Configuration
from penstock.rest.client.rest_client import RestClient, ServerUnreachableError
from penstock.rest.client.session_client import session_of
from penstock.time import clock

_log = logging.getLogger(__name__)

_FIRST_POLL_S = 0.05
_LAST_POLL_S = 1.0
_AWAY_S = 60.0  # how long a session may not answer, while another JobManager takes over


def submit(
    transformations: Sequence[Transformation],
    settings: GraphSettings,
    configuration: Configuration,
    job_name: str,
    *,
    step_hooks: Sequence[Any] = (),  # noqa: ARG001 - a step of a job elsewhere is not seen here
) -> RemoteJobController:
    """Send a program to the session that its options name, which runs it as a job."""
    client = session_of(configuration)
    _refuse_collecting(transformations)
    values, files = attach_files(configuration)
    submission = Submission(
        str(JobID()),
        job_name,
        pack_program(transformations, settings),
        values,
        files,
        clock.now_ms(),
    )
    # The same submission again starts nothing twice: a leader that went away meanwhile may have taken it.
    answer = _again(lambda: client.request("POST", "/penstock/jobs", submission.to_json()))
    for key in answer.get("ignored-options", ()):
        _log.warning(
            "option '%s' has no effect: it belongs to the session and is set when the session starts",
            key,
        )
    attached = configuration.get(options.EXECUTION_ATTACHED)
    controller = RemoteJobController(client, str(answer["jobid"]), job_name, attached=attached)
    if configuration.get(options.PROGRESS) != "never":
        controller.show_progress()
    return controller


def _refuse_collecting(transformations: Sequence[Transformation]) -> None:
    """Refuse a program that wants its records back in this process."""
    for step in steps_of(transformations):
        spec = getattr(step, "spec", None)
        if spec is not None and isinstance(spec.writes_to, CollectSink):
            raise UnsupportedOperationError(
                "execute_and_collect() is not supported in a session",
                detail="the records would be in the process that runs the job",
                hint="write to a sink, or run the program without a session",
            )


class RemoteJobController:
    """What a JobClient talks to when the job runs in a session elsewhere."""

    def __init__(
        self, client: RestClient, job_id: str, name: str, *, attached: bool = True
    ) -> None:
        self._client = client
        self._attached = attached
        self._job_id = job_id
        self._name = name
        self._path = f"/jobs/{job_id}"
        self._result: Future[JobExecutionResult] | None = None
        self._progress = RemoteProgress()
        self._lock = threading.Lock()

    def show_progress(self) -> None:
        """Print the line that says what runs where, and unless the program is detached the following ones as they come."""
        pause = _FIRST_POLL_S
        # The first line comes before the job waits for slots; with penstock.progress=never of the session there is none.
        while (
            JobStatus[self._ask_and_show()["status"]] is JobStatus.CREATED
            and not self._progress.started
        ):
            time.sleep(pause)
            pause = min(pause * 1.5, _LAST_POLL_S)
        if self._attached:
            self.get_job_execution_result()

    def get_job_id(self) -> JobID:
        """Return the job's identity."""
        return JobID.from_hex_string(self._job_id)

    def get_job_status(self) -> JobStatus:
        """Return the job's status."""
        return JobStatus[self._ask()["status"]]

    def get_accumulators(self) -> dict[str, Any]:
        """Return the accumulators of a job that has ended."""
        return dict(self._ask().get("accumulators", {}))

    def get_job_execution_result(self) -> Future[JobExecutionResult]:
        """Return the result, done when the job is."""
        with self._lock:
            if self._result is None:
                self._result = _in_background(self._follow)
            return self._result

    def cancel(self) -> Future[None]:
        """Cancel the job; done when it is over."""
        _again(lambda: self._client.request("PATCH", f"{self._path}?mode=cancel"))
        return _in_background(self._wait_for_end)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> Future[str]:
        """Take a savepoint while the job continues; the result is its path."""
        body = {} if savepoint_directory is None else {"target-directory": savepoint_directory}
        return self._operation("/savepoints", "/savepoints", body, _location)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> Future[str]:
        """End the job with a savepoint; the result is its path."""
        body: dict[str, Any] = {"drain": advance_to_end_of_event_time}
        if savepoint_directory is not None:
            body["targetDirectory"] = savepoint_directory
        return self._operation("/stop", "/savepoints", body, _location)

    def rescale(self, parallelism: int | Mapping[str, int]) -> Future[dict[str, int]]:
        """Change the parallelism; the result is the parallelism by vertex name."""
        body = (
            {"parallelism": parallelism}
            if isinstance(parallelism, int)
            else {"vertices": dict(parallelism)}
        )
        return self._operation("/rescale", "/rescale", body, _parallelism)

    def wait(self) -> JobExecutionResult:
        """Wait for the result; Ctrl-C only ends the waiting. A detached program continues at once, without a result."""
        if not self._attached:
            sys.stdout.write(
                f"job '{self._name}' ({self._job_id}) was sent to {self._client.address} and runs on there; "
                f"to end it: penstock cancel {self._job_id}\n"
            )
            return JobExecutionResult(self.get_job_id(), 0, {})
        result = self.get_job_execution_result()
        try:
            while not result.done():
                time.sleep(_FIRST_POLL_S)
        except KeyboardInterrupt:
            sys.stderr.write(
                f"job '{self._name}' keeps running; to end it: penstock cancel {self._job_id}\n"
            )
            raise
        return result.result()

    # Asking

    def _ask(self) -> dict[str, Any]:
        answer = _again(lambda: self._client.get(f"/penstock/jobs/{self._job_id}/result"))
        return dict(answer)

    def _ask_and_show(self) -> dict[str, Any]:
        """Ask for the state of the job, and print the lines about its progress that came since."""
        path = f"/penstock/jobs/{self._job_id}/result"
        answer = dict(_again(lambda: self._client.get(f"{path}?{self._progress.query()}")))
        self._progress.show(answer)
        return answer

    def _wait_for_end(self) -> None:
        """Wait until the job has reached a terminal state: a suspended job is resumed by another leader."""
        self._last_answer(self._ask)

    def _last_answer(self, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        pause = _FIRST_POLL_S
        while True:
            answer = ask()
            if _has_ended(answer):
                return answer
            time.sleep(pause)
            pause = min(pause * 1.5, _LAST_POLL_S)

    def _follow(self) -> JobExecutionResult:
        answer = self._last_answer(self._ask_and_show)
        match JobStatus[answer["status"]]:
            case JobStatus.FINISHED:
                return JobExecutionResult(
                    self.get_job_id(), answer["runtime_ms"], answer["accumulators"]
                )
            case JobStatus.CANCELED:
                raise JobCancelledError(f"job '{self._name}' was cancelled")
            case _:
                raise JobExecutionError(answer["error"] or f"job '{self._name}' failed")

    def _operation(
        self,
        path: str,
        answers: str,
        body: Mapping[str, Any],
        read: Callable[[Mapping[str, Any]], Any],
    ) -> Future[Any]:
        """Start an asynchronous operation once, even if the request is repeated, and poll until it is done."""
        asked = {**body, "triggerId": uuid.uuid4().hex}
        trigger = _again(lambda: self._client.request("POST", self._path + path, asked))
        where = f"{self._path}{answers}/{trigger['request-id']}"

        def poll() -> Any:
            pause = _FIRST_POLL_S
            while True:
                answer = _again(lambda: self._client.get(where))
                if answer["status"]["id"] == "COMPLETED":
                    return _outcome(answer["operation"], read)
                time.sleep(pause)
                pause = min(pause * 1.5, _LAST_POLL_S)

        return _in_background(poll)


def _has_ended(answer: Mapping[str, Any]) -> bool:
    return JobStatus[answer["status"]].is_globally_terminal_state()


def _outcome(operation: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Any]) -> Any:
    failure = operation.get("failure-cause")
    if failure is not None:
        raise JobRequestError(str(failure.get("message") or failure.get("stack-trace")))
    return read(operation)


def _location(operation: Mapping[str, Any]) -> str:
    return str(operation["location"])


def _parallelism(operation: Mapping[str, Any]) -> dict[str, int]:
    return {str(name): int(each) for name, each in operation["parallelism"].items()}


def _again(ask: Callable[[], Any]) -> Any:
    """Ask; if there is no answer, keep asking for as long as another JobManager may need to take over."""
    until = time.monotonic() + _AWAY_S
    while True:
        try:
            return ask()
        except ServerUnreachableError:
            if time.monotonic() >= until:
                raise
            time.sleep(_LAST_POLL_S)


def _in_background(call: Callable[[], Any]) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the future raises it
            future.set_exception(error)

    threading.Thread(target=run, name="penstock-remote-job", daemon=True).start()
    return future
