"""Rows of a database's table by key."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from penstock.connectors.jdbc.lookup import LookupClient
from penstock.connectors.jdbc.options import JdbcConnectionOptions

Key = tuple[Any, ...]


class JdbcTableLookup:
    """Asks for many keys at once. `names`: the columns of the rows that are given."""

    def __init__(
        self,
        connection: JdbcConnectionOptions,
        query: str,
        keys: Sequence[str],
        names: Sequence[str],
        retries: int,
    ) -> None:
        self._connection = connection
        self._query = query
        self._keys = list(keys)
        self._names = list(names)
        self._retries = retries
        self._client: LookupClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self, context: Any) -> None:
        """Make a loop; the client connects with the first question."""
        self._loop = asyncio.new_event_loop()
        self._client = LookupClient(self._connection, self._query, self._keys, 1, self._retries)

    def lookup(self, keys: Sequence[Key]) -> Sequence[Sequence[Key]]:
        """Return the rows of each key. A key with NULL has none."""
        assert self._loop is not None
        assert self._client is not None
        asked = [key[0] if len(self._keys) == 1 else key for key in keys]
        known = [each for each, key in zip(asked, keys, strict=True) if None not in key]
        found = self._loop.run_until_complete(self._client.find(known)) if known else {}
        return [
            [tuple(row[name] for name in self._names) for row in found.get(each, ())]
            for each in asked
        ]

    def close(self) -> None:
        """Leave the database."""
        if self._loop is not None and self._client is not None:
            self._loop.run_until_complete(self._client.close())
            self._loop.close()
        self._loop = self._client = None
