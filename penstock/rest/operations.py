"""Operations that take a while: a request starts one and gets an id to ask for the result with."""

from __future__ import annotations

import threading
import time
import traceback
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from penstock.errors import PenstockError
from penstock.rest.messages import HttpError, Response

KEPT_OPERATIONS = 1000


@dataclass(slots=True)
class Operation:
    """One operation: what it is for, its result, whether a client has seen the result."""

    resource: str
    job_id: str | None
    result: Future[Any] = field(default_factory=Future)
    fetched: bool = False
    done_at: float | None = None  # on the monotonic clock

    def awaits_its_client(self, now: float, patience_s: float) -> bool:
        """Whether a client may still come for the result."""
        return not self.fetched and (self.done_at is None or now < self.done_at + patience_s)


class Operations:
    """The operations of this process, the last 1000 of them."""

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
        """Begin an operation and answer with its id.

        A second request with the same `trigger_id` begins nothing, so a client may repeat a request that got no answer.
        """
        trigger_id = trigger_id or uuid.uuid4().hex
        with self._changed:
            known = self._operations.get(trigger_id)
            if known is not None and (known.resource, known.job_id) != (resource, job_id):
                raise HttpError(HTTPStatus.CONFLICT, f"trigger id {trigger_id} is taken")
            if known is None:
                operation = self._operations[trigger_id] = Operation(resource, job_id)
                self._forget_old_ones()
        if known is None:
            try:
                begin().add_done_callback(lambda future: self._done(operation, future))
            except BaseException:
                with self._changed:
                    self._operations.pop(trigger_id, None)
                raise
        return Response({"request-id": trigger_id}, HTTPStatus.ACCEPTED)

    def _forget_old_ones(self) -> None:
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
        describe: Callable[[Any], dict[str, Any]],
    ) -> Response:
        """Answer how an operation stands, in Flink's shape; `describe` puts its result into JSON."""
        with self._changed:
            operation = self._operations.get(trigger_id)
        if operation is None or (operation.resource, operation.job_id) != (resource, job_id):
            raise HttpError(HTTPStatus.NOT_FOUND, f"operation {trigger_id} is unknown")
        if not operation.result.done():
            return Response({"status": {"id": "IN_PROGRESS"}, "operation": None})
        error = operation.result.exception()
        outcome = describe(operation.result.result()) if error is None else _failure(error)
        return Response(
            {"status": {"id": "COMPLETED"}, "operation": outcome},
            sent=lambda: self._fetched(operation),
        )

    def _fetched(self, operation: Operation) -> None:
        with self._changed:
            operation.fetched = True
            self._changed.notify_all()

    def wait_until_fetched(self, patience_s: float) -> None:
        """Wait for clients to see the results of what is under way or ended just now, but not longer than that."""
        started = self._clock()
        with self._changed:
            while (now := self._clock()) < started + patience_s and any(
                operation.awaits_its_client(now, patience_s)
                for operation in self._operations.values()
            ):
                self._changed.wait(0.05)


def run_in_background(call: Callable[[], Any]) -> Future[Any]:
    """Run a call in a thread of its own and return its result to be."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is handed to whoever asks for the result
            future.set_exception(error)

    threading.Thread(target=run, name="penstock-rest-operation", daemon=True).start()
    return future


def _failure(error: BaseException) -> dict[str, Any]:
    own = isinstance(error, PenstockError)
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    return {
        "failure-cause": {
            "class": kind,
            "message": str(error) if own else f"{type(error).__name__}: {error}",
            "stack-trace": "".join(traceback.format_exception(error)),
        }
    }
