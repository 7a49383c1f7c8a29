"""Asynchronous operations: a request starts one and gets an id with which the client polls for the result."""

from __future__ import annotations

import dataclasses
import threading
import time
import traceback
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType, field

from penstock.errors import PenstockError
from penstock.rest.flink_json.parts import Id
from penstock.rest.messages import HttpError, Response

KEPT_OPERATIONS = 1000


class TriggerId(Struct, frozen=True):
    """The id of an operation that was started."""

    request_id: Id = field(name="request-id")


class OperationStatus(Struct, frozen=True):
    """Whether an operation has ended."""

    id: Literal["IN_PROGRESS", "COMPLETED"]


class OperationFailure(Struct, frozen=True, kw_only=True):
    """Why an operation failed."""

    class_name: str = field(name="class")
    message: str
    stack_trace: str = field(name="stack-trace")


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of an operation: its result, in fields of subclasses, or why it failed."""

    failure_cause: OperationFailure | UnsetType = field(name="failure-cause", default=UNSET)


T = TypeVar("T", bound=Outcome)


class Standing(Struct, Generic[T], frozen=True):
    """The status of an operation, and its outcome when it has ended."""

    status: OperationStatus
    operation: T | None


@dataclass(slots=True)
class Operation:
    """One operation: its subject, its result, and whether a client has fetched the result."""

    resource: str
    job_id: str | None
    result: Future[Any] = dataclasses.field(default_factory=Future)
    fetched: bool = False
    done_at: float | None = None  # on the monotonic clock

    def awaits_its_client(self, now: float, timeout_s: float) -> bool:
        """Whether a client may still fetch the result."""
        return not self.fetched and (self.done_at is None or now < self.done_at + timeout_s)


class Operations:
    """The last 1000 operations of this process."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        changed: threading.Condition | None = None,
    ) -> None:
        self._clock = clock
        self._changed = changed or threading.Condition()
        self._operations: dict[str, Operation] = {}

    def start(
        self,
        resource: str,
        job_id: str | None,
        begin: Callable[[], Future[Any]],
        trigger_id: str | None = None,
    ) -> Response:
        """Start an operation and respond with its id.

        A second request with the same `trigger_id` starts nothing, so a client may repeat a request that got no response.
        """
        trigger_id = trigger_id or uuid.uuid4().hex
        with self._changed:
            known = self._operations.get(trigger_id)
            if known is not None and (known.resource, known.job_id) != (resource, job_id):
                raise HttpError(HTTPStatus.CONFLICT, f"trigger id {trigger_id} is already in use")
            if known is None:
                operation = self._operations[trigger_id] = Operation(resource, job_id)
                self._evict_old()
        if known is None:
            try:
                begin().add_done_callback(lambda future: self._done(operation, future))
            except BaseException:
                with self._changed:
                    self._operations.pop(trigger_id, None)
                raise
        return Response(TriggerId(trigger_id), HTTPStatus.ACCEPTED)

    def _evict_old(self) -> None:
        excess = len(self._operations) - KEPT_OPERATIONS
        done = [name for name, each in self._operations.items() if each.result.done()]
        for name in done[: max(excess, 0)]:
            del self._operations[name]

    def _done(self, operation: Operation, future: Future[Any]) -> None:
        if future.cancelled():
            operation.result.set_exception(PenstockError("the operation was cancelled"))
        elif (error := future.exception()) is not None:
            operation.result.set_exception(error)
        else:
            operation.result.set_result(future.result())
        with self._changed:
            operation.done_at = self._clock()
            self._changed.notify_all()

    def status(
        self,
        resource: str,
        job_id: str | None,
        trigger_id: str,
        describe: Callable[[Any], Outcome],
    ) -> Response:
        """Respond with the status of an operation, in Flink's JSON; `describe` returns its result as an answer has it."""
        with self._changed:
            operation = self._operations.get(trigger_id)
        if operation is None or (operation.resource, operation.job_id) != (resource, job_id):
            raise HttpError(HTTPStatus.NOT_FOUND, f"unknown operation {trigger_id}")
        if not operation.result.done():
            return Response(Standing(OperationStatus("IN_PROGRESS"), None))
        error = operation.result.exception()
        outcome = describe(operation.result.result()) if error is None else _failure(error)
        return Response(
            Standing(OperationStatus("COMPLETED"), outcome),
            sent=lambda: self._fetched(operation),
        )

    def _fetched(self, operation: Operation) -> None:
        with self._changed:
            operation.fetched = True
            self._changed.notify_all()

    def wait_until_fetched(self, timeout_s: float) -> None:
        """Wait until clients have fetched the results of running and recent operations, for at most `timeout_s`."""
        started = self._clock()
        with self._changed:
            while (now := self._clock()) < started + timeout_s and any(
                operation.awaits_its_client(now, timeout_s)
                for operation in self._operations.values()
            ):
                self._changed.wait(0.05)


def run_in_background(call: Callable[[], Any]) -> Future[Any]:
    """Run a call in its own thread and return its future."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the future raises it
            future.set_exception(error)

    threading.Thread(target=run, name="penstock-rest-operation", daemon=True).start()
    return future


def _failure(error: BaseException) -> Outcome:
    own = isinstance(error, PenstockError)
    return Outcome(
        failure_cause=OperationFailure(
            class_name=f"{type(error).__module__}.{type(error).__qualname__}",
            message=str(error) if own else f"{type(error).__name__}: {error}",
            stack_trace="".join(traceback.format_exception(error)),
        )
    )
