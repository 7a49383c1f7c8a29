"""The database client of lookups: finds rows by key, many keys per statement, without blocking."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from penstock.common.types import Row
from penstock.connectors.base.retrying import retry_async
from penstock.connectors.jdbc.failures import may_pass, pauses, refused
from penstock.connectors.jdbc.generic import DriverStatement, create_engine
from penstock.connectors.jdbc.options import JdbcConnectionOptions
from penstock.connectors.jdbc.postgres import adapt, connection_settings, psycopg
from penstock.connectors.jdbc.statements import for_psycopg

Rows = list[Row]
Found = tuple[tuple[str, ...], Any]  # names of columns, and rows
Ask = Callable[[list[Hashable]], Awaitable[Found]]


class LookupClient:
    """Finds the rows of keys. It belongs to one event loop, and keeps up to `connections` connections.

    A key that is already being looked up is not requested again: later callers get the same result.
    """

    def __init__(
        self,
        options: JdbcConnectionOptions,
        query: str,
        keys: Sequence[str],
        connections: int,
        retries: int,
        on_query: Callable[[], None] = lambda: None,
        on_retry: Callable[[], None] = lambda: None,
    ) -> None:
        self._options = options
        self._query = query
        self._keys = tuple(keys)
        self._retries = retries
        self._on_query = on_query
        self._on_retry = on_retry
        self._permits = asyncio.Semaphore(connections)
        self._idle: list[Any] = []
        self._asked: dict[Hashable, asyncio.Future[Rows]] = {}
        self._engine: Any = None

    async def find(self, keys: Sequence[Hashable]) -> dict[Hashable, Rows]:
        """Return the rows of each key; an empty list for a key without rows."""
        loop = asyncio.get_running_loop()
        mine = [key for key in dict.fromkeys(keys) if key not in self._asked]
        futures = {key: loop.create_future() for key in mine}
        self._asked.update(futures)
        waited = {key: self._asked[key] for key in keys}
        if mine:
            try:
                found = await self._fetch(mine)
            except BaseException as error:
                for future in futures.values():
                    if not future.done():
                        future.set_exception(
                            error
                            if isinstance(error, Exception)
                            else ConnectionError("the lookup was cancelled")
                        )
                        future.exception()  # marks it as retrieved, as there may be no other waiter
                raise
            finally:
                for key in mine:
                    self._asked.pop(key, None)
            for key, future in futures.items():
                future.set_result(found[key])
        return {key: await future for key, future in waited.items()}

    async def close(self) -> None:
        """Close the connections."""
        idle, self._idle = self._idle, []
        for connection in idle:
            with suppress(Exception):
                await connection.close()

    async def _fetch(self, keys: list[Hashable]) -> dict[Hashable, Rows]:
        ask = self._ask_postgres if self._options.target.kind == "postgresql" else self._ask_other
        async with self._permits:
            try:
                names, rows = await retry_async(
                    partial(self._attempt, ask, keys),
                    pauses(self._retries),
                    when=may_pass,
                    before_pause=lambda _: self._on_retry(),
                )
            except Exception as error:
                raise refused(error, self._options.target, "look up rows", self._query) from error
            return self._sorted(keys, names, rows)

    async def _attempt(self, ask: Ask, keys: list[Hashable]) -> Found:
        self._on_query()
        try:
            return await ask(keys)
        except Exception as error:
            if may_pass(error):
                await self.close()  # the other connections are as old
            raise

    def _sorted(
        self, keys: list[Hashable], names: tuple[str, ...], rows: Sequence[Sequence[Any]]
    ) -> dict[Hashable, Rows]:
        places = [names.index(name) for name in self._keys]
        found: dict[Hashable, Rows] = {key: [] for key in keys}
        by_text = {_text(key): key for key in keys}  # a key may be a str where the column is a UUID
        for values in rows:
            row = Row(*values)
            row.set_field_names(names)
            key = values[places[0]] if len(places) == 1 else tuple(values[at] for at in places)
            if key not in found:
                key = by_text.get(_text(key), key)
            if key in found:
                found[key].append(row)
        return found

    async def _ask_postgres(self, keys: list[Hashable]) -> tuple[tuple[str, ...], Any]:
        connection = self._idle.pop() if self._idle else await self._connect()
        try:
            if len(self._keys) == 1:
                condition, parameters = f"{_quoted(self._keys[0])} = ANY(?)", [list(keys)]
            else:
                condition, parameters = _among(self._keys, keys, '"')
            cursor = await connection.execute(for_psycopg(self._sql(condition)), parameters)
            rows = await cursor.fetchall()
            names = tuple(column.name for column in cursor.description)
        except BaseException:
            with suppress(Exception):
                await connection.close()
            raise
        self._idle.append(connection)
        return names, rows

    async def _connect(self) -> Any:
        settings = connection_settings(self._options)
        connection = await psycopg().AsyncConnection.connect(**settings, autocommit=True)
        adapt(connection)
        return connection

    async def _ask_other(self, keys: list[Hashable]) -> tuple[tuple[str, ...], Any]:
        return await asyncio.to_thread(self._ask_blocking, keys)

    def _ask_blocking(self, keys: list[Hashable]) -> tuple[tuple[str, ...], Any]:
        if self._engine is None:
            self._engine = create_engine(self._options)
        quote = "`" if self._engine.dialect.name in {"mysql", "mariadb"} else '"'
        condition, parameters = _among(self._keys, keys, quote)
        with self._engine.connect() as connection:
            statement = DriverStatement(self._sql(condition), self._engine.dialect)
            result = connection.exec_driver_sql(statement.sql, statement.parameters(parameters))
            return tuple(result.keys()), result.fetchall()

    def _sql(self, condition: str) -> str:
        return f"SELECT * FROM {self._query} AS penstock_rows WHERE {condition}"  # noqa: S608 - given by the user


def _among(names: Sequence[str], keys: list[Hashable], quote: str) -> tuple[str, list[Any]]:
    columns = ", ".join(_quoted(name, quote) for name in names)
    if len(names) == 1:
        return f"{columns} IN ({', '.join('?' for _ in keys)})", list(keys)
    one = f"({', '.join('?' for _ in names)})"
    values = [value for key in keys for value in key]  # type: ignore[attr-defined]
    return f"({columns}) IN ({', '.join(one for _ in keys)})", values


def _quoted(name: str, quote: str = '"') -> str:
    return quote + name.replace(quote, quote * 2) + quote


def _text(key: object) -> object:
    return tuple(map(str, key)) if isinstance(key, tuple) else str(key)
