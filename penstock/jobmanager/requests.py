"""What people ask of a running job: savepoints and another parallelism. Served between two epochs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True, eq=False)
class SavepointRequest:
    """A savepoint to be taken; `stops` says that the job ends with it, `drains` that time goes to its end before."""

    target: str
    stops: bool = False
    drains: bool = False
    result: Future[str] = field(default_factory=Future)


@dataclass(frozen=True, slots=True, eq=False)
class RescaleRequest:
    """Another parallelism: for all operators that set none, or for some by name. Gives the parallelism by vertex name."""

    parallelism: int | Mapping[str, int]
    reason: str = "asked for"
    result: Future[dict[str, int]] = field(default_factory=Future)


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
