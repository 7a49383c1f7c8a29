"""A small HTTP client: keeps connections, tries again what may succeed next time, can be stopped in the middle of a pause.

Over urllib3, which checks certificates, speaks through proxies and is kept well.
"""

from __future__ import annotations

import email.utils
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.common.extras import optional_module
from penstock.connectors.retrying import Backoff
from penstock.errors import ConnectionFailedError

# Too early, too many, or an upstream that is away: the same request may succeed later.
RETRIED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST_RETRY_AFTER_S = 300.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server has answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def accepted(self) -> bool:
        """Whether the server has taken the request."""
        return 200 <= self.status < 300

    def text(self, most: int = 500) -> str:
        """Return the beginning of the body, for messages."""
        return self.body[:most].decode("utf-8", "replace").strip()


class StoppedError(Exception):
    """Whoever waits for an answer was told to stop."""


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

    def send(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send a request until it is answered with a status that stays; raise if the server is away for too long."""
        pauses = self._backoff.pauses()
        while True:
            answer, trouble = self.send_once(method, url, body, headers)
            if answer is not None and answer.status not in RETRIED_STATUSES:
                return answer
            pause = next(pauses, None)
            if pause is None:
                raise ConnectionFailedError(
                    f"{method} {url} had no success",
                    detail=trouble,
                    hint="check that the server runs and keeps up; the sink's retry options say how long it is waited for",
                )
            asked = None if answer is None else retry_after(answer.headers)
            self.wait(pause if asked is None else max(pause, asked))

    def send_once(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[Answer | None, str]:
        """Send a request once; return the answer, if there was one, and what is wrong otherwise."""
        if self._stopped.is_set():
            raise StoppedError
        try:
            found = self._pool.request(
                method, url, body=body, headers=dict(headers), redirect=False
            )
        except (self._urllib3.exceptions.HTTPError, OSError) as error:
            return None, f"{type(error).__name__}: {error}"
        answer = Answer(found.status, found.headers, found.data)
        return answer, f"{answer.status}: {answer.text()}"

    def wait(self, seconds: float) -> None:
        """Pause before another attempt."""
        self.retries += 1
        if self._stopped.wait(seconds):
            raise StoppedError

    def stop(self) -> None:
        """Let those who wait go; nothing is sent any more."""
        self._stopped.set()

    def close(self) -> None:
        """Close all connections."""
        self.stop()
        self._pool.clear()


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return how many seconds the server asks to wait: it says a number, or a date.

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
