"""Redis: a sink of commands, and lookups for AsyncDataStream."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from penstock.connectors.base.arguments import check_callable, check_int, check_one_of
from penstock.connectors.base.lookup_cache import LookupCache
from penstock.connectors.base.rejections import RejectedRecord
from penstock.connectors.base.retrying import Backoff, retry_async
from penstock.connectors.redis.client import Connect, check_connect, without_password
from penstock.connectors.redis.sink import RedisSink
from penstock.datastream.async_functions import AsyncBatchFunction
from penstock.dependencies.extras import optional_module
from penstock.errors import ArgumentError, ArgumentTypeError, ConnectionFailedError

_COMMANDS = ("GET", "HGETALL", "HMGET")


class RedisLookup(AsyncBatchFunction[Any, Any]):
    """Enriches records with values of Redis by key.

    `key` is a function of the record. `join(record, answer)` returns the result, or None for none; the answer is text (GET),
    a dict (HGETALL), or a dict of the requested `fields` (HMGET); None for a missing key. The default results are pairs of
    record and answer.

    Keys of many records are looked up together (MGET, or a pipeline), each once, and answers are kept in the `cache`, including
    missing keys. Requests to a server that is down are retried for `retry_timeout_ms`. `url` is as for RedisSink; a function must
    return a client of redis.asyncio.

    >>> RedisLookup("redis://localhost", lambda order: f"user:{order['user']}", command="HGETALL").command
    'HGETALL'
    """

    def __init__(
        self,
        url: Connect,
        key: Callable[[Any], str],
        join: Callable[[Any, Any], Any] | None = None,
        *,
        command: str = "GET",
        fields: list[str] | None = None,
        cache: LookupCache | None = None,
        max_batch_size: int = 100,
        retry_timeout_ms: int = 30_000,
        cluster: bool = False,
        decode: bool = True,
    ) -> None:
        self.connect = check_connect(url)
        self.key = check_callable("key", key, "the record")
        self.join = None if join is None else check_callable("join", join, "record and answer")
        self.command = check_one_of("command", command, _COMMANDS)
        if (command == "HMGET") != bool(fields):
            raise ArgumentError("fields must be set for HMGET, and only for HMGET")
        if cache is not None and not isinstance(cache, LookupCache):
            raise ArgumentTypeError("cache is not a LookupCache", detail=f"got {cache!r}")
        self.fields = list(fields or ())
        self.cache = cache if cache is not None else LookupCache(max_rows=0)
        self.max_batch_size = check_int("max_batch_size", max_batch_size, 1)  # type: ignore[misc]
        self.retry_timeout_ms = check_int("retry_timeout_ms", retry_timeout_ms, 0)
        self.cluster = bool(cluster)
        self.decode = bool(decode)
        self._client: Any = None

    async def open(self, runtime_context: Any) -> None:  # type: ignore[override]
        """Create the client; it connects on first use."""
        self._errors = optional_module("redis.exceptions", extra="redis", needed_by="RedisLookup")
        library = optional_module("redis.asyncio", extra="redis", needed_by="RedisLookup")
        if isinstance(self.connect, str):
            kind = library.RedisCluster if self.cluster else library.Redis
            self._client = kind.from_url(self.connect, decode_responses=self.decode)
        else:
            self._client = self.connect()
        self.cache.report_to(runtime_context.get_metrics_group())

    async def async_invoke_batch(self, values: list[Any]) -> list[list[Any]]:
        """Return the results of many records."""
        keys = [self.key(value) for value in values]
        known, wanted = self.cache.get_all(keys)
        if wanted:
            found = await self._ask(wanted)
            self.cache.put_all(found)
            known = {**known, **found}
        return [self._joined(value, known[key]) for value, key in zip(values, keys, strict=True)]

    def _joined(self, value: Any, answer: Any) -> list[Any]:
        if self.join is None:
            return [(value, answer)]
        result = self.join(value, answer)
        return [] if result is None else [result]

    async def _ask(self, keys: list[Hashable]) -> dict[Hashable, Any]:
        """Look up keys, with retries until the server answers."""
        away = (self._errors.ConnectionError, self._errors.TimeoutError, OSError)

        async def attempt() -> dict[Hashable, Any]:
            return dict(zip(keys, await self._answers(keys), strict=True))

        pauses = Backoff(20, 1000, within_ms=self.retry_timeout_ms).pauses()
        try:
            return await retry_async(attempt, pauses, when=lambda error: isinstance(error, away))
        except away as error:
            name = self.connect if isinstance(self.connect, str) else ""
            raise ConnectionFailedError(
                f"{without_password(name) or 'Redis'} did not answer for {self.retry_timeout_ms} ms",
                detail=f"{type(error).__name__}: {error}",
                hint="check that the server is up; retry_timeout_ms sets how long requests are retried",
            ) from error

    async def _answers(self, keys: list[Hashable]) -> list[Any]:
        if self.command == "GET" and not self.cluster:
            answers: list[Any] = await self._client.mget(keys)
            return answers
        async with self._client.pipeline(transaction=False) as pipeline:
            for key in keys:
                if self.command == "GET":
                    pipeline.get(key)
                elif self.command == "HGETALL":
                    pipeline.hgetall(key)
                else:
                    pipeline.hmget(key, self.fields)
            answers = await pipeline.execute()
        if self.command == "GET":
            return answers
        return [self._as_dict(each) for each in answers]

    def _as_dict(self, answer: Any) -> dict[Any, Any] | None:
        if isinstance(answer, list):
            if all(each is None for each in answer):
                return None
            return dict(zip(self.fields, answer, strict=True))
        return answer or None

    async def close(self) -> None:  # type: ignore[override]
        """Close the client."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


__all__ = ["LookupCache", "RedisLookup", "RedisSink", "RejectedRecord"]
