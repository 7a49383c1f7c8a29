"""What people ask of a running job: savepoints and another parallelism. Served between two epochs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.errors import ArgumentError


@dataclass(frozen=True, slots=True, eq=False)
class SavepointRequest:
    """A savepoint to be taken; `stops` says that the job ends with it, `drains` that time goes to its end before."""

    target: str
    stops: bool = False
    drains: bool = False
    result: Future[str] = field(default_factory=Future)


@dataclass(frozen=True, slots=True, eq=False)
class RescaleRequest:
    """Another parallelism, in steps that are all taken or none: for all operators that set none, or for some by name.

    `former` is the parallelism that the request was made for; once the job has another one, the request is out of date.
    Gives the parallelism by vertex name.
    """

    steps: tuple[int | Mapping[str, int], ...]
    reason: str = "asked for"
    former: int | None = None
    result: Future[dict[str, int]] = field(default_factory=Future)

    def check(self, parallelism: int) -> None:
        """Refuse a request that is out of date, given the parallelism that the job has now."""
        if self.former is not None and self.former != parallelism:
            raise ArgumentError(f"the job has been rescaled from {self.former} to {parallelism}")


Request: TypeAlias = SavepointRequest | RescaleRequest


class RequestQueue:
    """Requests in the order in which they came, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Requests that nobody has taken; none is ever added after `close`.
        self._waiting: list[Request] = []
        self._closed: Callable[[], Exception] | None = None

    def add(self, request: Request) -> None:
        """Queue a request; if the job is over, its result is an error."""
        with self._lock:
            if self._closed is None:
                self._waiting.append(request)
            else:
                request.result.set_exception(self._closed())

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self) -> Request | None:
        """Return the oldest request that was not given up on, if there is one."""
        with self._lock:
            while self._waiting:
                request = self._waiting.pop(0)
                if request.result.set_running_or_notify_cancel():
                    return request
        return None

    def close(self, error: Callable[[], Exception]) -> None:
        """Refuse what waits and what may still come."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._closed = error
        for request in waiting:
            if request.result.set_running_or_notify_cancel():
                request.result.set_exception(error())
