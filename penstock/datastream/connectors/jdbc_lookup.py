"""Enriches a stream from a database: an asynchronous function that looks up rows by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.types import Row
from penstock.connectors.base.lookup_cache import LookupCache
from penstock.connectors.jdbc.lookup import LookupClient
from penstock.connectors.jdbc.options import JdbcConnectionOptions, text, whole_number
from penstock.connectors.jdbc.sink import check_options
from penstock.connectors.jdbc.statements import check_sql, count_parameters
from penstock.datastream.async_functions import AsyncBatchFunction
from penstock.errors import ArgumentError, ArgumentTypeError

Join = Callable[[Any, list[Row]], list[Any]]


class JdbcLookup(AsyncBatchFunction[Any, Any]):
    """Looks up the rows of a table or query for each element, for AsyncDataStream.

    `query` is a table or a SELECT; `key_columns` are the columns that are compared with the result of `key_selector` for an
    element: one value, or a tuple with one value per column. The keys of up to `max_batch_size` elements are looked up in one
    statement.

    The results are pairs (element, row), one for each row; (element, None) without rows. `join(element, rows)` may return
    other results.

    >>> options = JdbcConnectionOptions("jdbc:postgresql://localhost/shop")
    >>> lookup = JdbcLookup("customers", ["id"], lambda order: order["customer"], options)
    """

    def __init__(
        self,
        query: str,
        key_columns: Sequence[str],
        key_selector: Callable[[Any], Any],
        jdbc_connection_options: JdbcConnectionOptions,
        *,
        join: Join | None = None,
        cache: LookupCache | None = None,
        max_batch_size: int = 100,
        connections: int = 4,
        max_retries: int = 3,
    ) -> None:
        query = check_sql(query, "the query").strip().rstrip(";")
        if count_parameters(query):
            raise ArgumentError(
                "the query of a lookup must not have parameters",
                detail=f"query: {query}",
                hint="remove the condition on the key and pass the columns as key_columns",
            )
        self._query = (
            f"({query})" if query.split(None, 1)[0].lower() in {"select", "with"} else query
        )
        if isinstance(key_columns, str) or not key_columns:
            raise ArgumentTypeError(
                "key_columns is not a list of columns", detail=f"got {key_columns!r}"
            )
        self._keys = tuple(text(name, "a key column") for name in key_columns)
        for name, function in (("key_selector", key_selector), ("join", join)):
            if function is not None and not callable(function):
                raise ArgumentTypeError(f"{name} is not callable", detail=f"got {function!r}")
        if cache is not None and not isinstance(cache, LookupCache):
            raise ArgumentTypeError("cache is not a LookupCache", detail=f"got {cache!r}")
        self._key_selector = key_selector
        self._options = check_options(jdbc_connection_options)
        self._join = _pairs if join is None else join
        self._cache = LookupCache() if cache is None else cache
        self.max_batch_size = whole_number(max_batch_size, "the size of batches", 1)  # type: ignore[misc]
        self._connections = whole_number(connections, "the number of connections", 1)
        self._retries = whole_number(max_retries, "the number of retries", 0)
        self._client: LookupClient | None = None

    async def open(self, runtime_context: Any) -> None:  # type: ignore[override]
        """Initialize the client; it connects when needed."""
        metrics = runtime_context.get_metrics_group()
        self._cache.report_to(metrics)
        queries = metrics.counter("numLookupQueries")
        retries = metrics.counter("numLookupRetries")
        self._client = LookupClient(
            self._options,
            self._query,
            self._keys,
            self._connections,
            self._retries,
            queries.inc,
            retries.inc,
        )

    async def close(self) -> None:  # type: ignore[override]
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    async def async_invoke_batch(self, values: list[Any]) -> list[list[Any]]:
        """Return the results of elements."""
        assert self._client is not None
        keys = [self._key_selector(value) for value in values]
        known, wanted = self._cache.get_all(key for key in keys if key is not None)
        if wanted:
            found = await self._client.find(wanted)
            self._cache.put_all({key: rows or None for key, rows in found.items()})
            known.update(found)
        return [
            self._join(value, known.get(key) or []) for value, key in zip(values, keys, strict=True)
        ]


def _pairs(value: Any, rows: list[Row]) -> list[Any]:
    return [(value, row) for row in rows] or [(value, None)]
