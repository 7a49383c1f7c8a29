"""A small HTTP client: reuses connections, retries temporary failures, can be stopped during a pause.

Based on urllib3, which checks certificates and supports proxies.
"""

from __future__ import annotations

import email.utils
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.connectors.base.retrying import AttemptFailedError, Backoff, retry
from penstock.dependencies.extras import optional_module
from penstock.errors import ConnectionFailedError

# Too early, too many requests, or an unavailable upstream: the same request may succeed later.
RETRIED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST_RETRY_AFTER_S = 300.0


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response of a server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def accepted(self) -> bool:
        """Whether the request succeeded."""
        return 200 <= self.status < 300

    def text(self, most: int = 500) -> str:
        """Return the start of the body, for messages."""
        return self.body[:most].decode("utf-8", "replace").strip()


class StoppedError(Exception):
    """The client was stopped while a request was waiting."""


class HttpClient:
    """Sends requests, from several threads at once."""

    def __init__(
        self,
        *,
        extra: str,
        needed_by: str,
        backoff: Backoff,
        connections: int = 1,
        connect_timeout_s: float = 10.0,
        read_timeout_s: float = 60.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._urllib3 = optional_module("urllib3", extra=extra, needed_by=needed_by)
        self._pool = self._urllib3.PoolManager(
            maxsize=connections,
            block=False,
            retries=False,
            timeout=self._urllib3.Timeout(connect=connect_timeout_s, read=read_timeout_s),
            **(options or {}),
        )
        self._backoff = backoff
        self._stopped = threading.Event()
        self.retries = 0  # for metrics

    def send(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> HttpResponse:
        """Send a request, with retries on temporary failures; raise if the server does not recover in time."""

        def attempt() -> HttpResponse:
            answer, trouble = self.send_once(method, url, body, headers)
            if answer is not None and answer.status not in RETRIED_STATUSES:
                return answer
            asked = None if answer is None else retry_after(answer.headers)
            raise AttemptFailedError(trouble, asked or 0.0)

        try:
            return retry(
                attempt,
                self._backoff.pauses(),
                when=lambda error: isinstance(error, AttemptFailedError),
                sleep=self.wait,
            )
        except AttemptFailedError as error:
            raise ConnectionFailedError(
                f"{method} {url} failed after all retries",
                detail=str(error),
                hint="check that the server is up and can handle the load; the sink's retry options set how long requests are retried",
            ) from None

    def send_once(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[HttpResponse | None, str]:
        """Send a request once; return the response, if there was one, and else the error."""
        if self._stopped.is_set():
            raise StoppedError
        try:
            found = self._pool.request(
                method, url, body=body, headers=dict(headers), redirect=False
            )
        except (self._urllib3.exceptions.HTTPError, OSError) as error:
            return None, f"{type(error).__name__}: {error}"
        answer = HttpResponse(found.status, found.headers, found.data)
        return answer, f"{answer.status}: {answer.text()}"

    def wait(self, seconds: float) -> None:
        """Wait before another attempt."""
        self.retries += 1
        if self._stopped.wait(seconds):
            raise StoppedError

    def stop(self) -> None:
        """Wake all waiting requests; nothing more is sent."""
        self._stopped.set()

    def close(self) -> None:
        """Close all connections."""
        self.stop()
        self._pool.clear()


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return how many seconds the server asks to wait, from a number or a date.

    >>> retry_after({"Retry-After": "7"}), retry_after({}), retry_after({"Retry-After": "soon"})
    (7.0, None, None)
    >>> retry_after({"Retry-After": "Thu, 01 Jan 1970 00:00:30 GMT"}, now=10)
    20.0
    """
    text = headers.get("Retry-After")
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            then = email.utils.parsedate_to_datetime(text).timestamp()
        except ValueError:
            return None
        seconds = then - (time.time() if now is None else now)
    return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER_S)
