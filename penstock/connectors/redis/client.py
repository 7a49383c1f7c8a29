"""Connections to Redis, and calls with retries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from penstock.connectors.base.retrying import Backoff, retry
from penstock.dependencies.extras import optional_module
from penstock.errors import (
    AccessRefusedError,
    ArgumentError,
    ArgumentTypeError,
    ConnectionFailedError,
)

T = TypeVar("T")
Connect = str | Callable[[], Any]
_SCHEMES = ("redis", "rediss", "unix")


def check_connect(url: Any) -> Connect:
    """Return a URL, or a function that creates a client, after checking it."""
    if callable(url):
        return url  # type: ignore[no-any-return]
    if not isinstance(url, str):
        raise ArgumentTypeError(
            "url is neither a str nor a function that creates a client", detail=f"got {url!r}"
        )
    if urlsplit(url).scheme not in _SCHEMES:
        raise ArgumentError(
            "invalid Redis URL",
            detail=f"got {without_password(url)!r}",
            hint="use a URL that starts with redis://, rediss:// or unix://",
        )
    return url


def without_password(url: str) -> str:
    """Return a URL without user and password, for messages.

    >>> without_password("redis://ada:geheim@host:6379/0")
    'redis://host:6379/0'
    """
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


class RedisCalls:
    """A client that connects on first use. Calls are retried while the server is down, loads its data, or has no master."""

    def __init__(self, connect: Connect, *, cluster: bool, backoff: Backoff) -> None:
        self._connect = connect
        self._cluster = cluster
        self._backoff = backoff
        self._client: Any = None
        self._redis = optional_module("redis", extra="redis", needed_by="the Redis connector")
        self._stopped = threading.Event()
        self.retries = 0  # for metrics

    @property
    def name(self) -> str:
        """The server's name in messages."""
        return without_password(self._connect) if isinstance(self._connect, str) else "Redis"

    def call(self, function: Callable[[Any], T]) -> T:
        """Call a function with the client, with retries until the server answers; the function must be idempotent."""
        errors = self._redis.exceptions
        away = (
            errors.ConnectionError,
            errors.TimeoutError,
            errors.BusyLoadingError,
            errors.ReadOnlyError,
            errors.TryAgainError,
            errors.ClusterDownError,
            OSError,
        )
        refused = (errors.AuthenticationError, errors.AuthorizationError)

        def when(error: Exception) -> bool:
            return isinstance(error, away) and not isinstance(error, refused)

        try:
            return retry(
                lambda: function(self._open()),
                self._backoff.pauses(),
                when=when,
                before_pause=self._count_retry,
                sleep=self._stopped.wait,
            )
        except refused as error:
            raise AccessRefusedError(
                f"{self.name} rejected the credentials",
                detail=f"{type(error).__name__}: {error}",
                hint="check the user and the password",
            ) from error
        except away as error:
            raise self._failed(error, "check that the server is up") from error

    def _count_retry(self, error: Exception) -> None:
        self.retries += 1

    def pipeline(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run commands, not as a transaction; return the results, with an exception for each rejected command."""
        errors = self._redis.exceptions
        # Such an error is not about the command: the server is busy, or is no longer the master.
        passing = (errors.BusyLoadingError, errors.ReadOnlyError, errors.ClusterDownError)

        def send(client: Any) -> list[Any]:
            with client.pipeline(transaction=False) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                answers: list[Any] = pipeline.execute(raise_on_error=False)
            for answer in answers:
                if isinstance(answer, Exception) and (
                    isinstance(answer, passing) or not isinstance(answer, errors.ResponseError)
                ):
                    raise answer
            return answers

        return self.call(send)

    def _failed(self, error: Exception, hint: str) -> ConnectionFailedError:
        return ConnectionFailedError(
            f"{self.name} did not answer for {self._backoff.within_ms} ms",
            detail=f"{type(error).__name__}: {error}",
            hint=f"{hint}; retry_timeout_ms sets how long calls are retried",
        )

    def _open(self) -> Any:
        if self._client is None:
            if not isinstance(self._connect, str):
                self._client = self._connect()
            else:
                kind = self._redis.RedisCluster if self._cluster else self._redis.Redis
                self._client = kind.from_url(self._connect)
        return self._client

    def close(self) -> None:
        """Close the connection."""
        self._stopped.set()
        client, self._client = self._client, None
        if client is not None:
            client.close()
