"""Tables that are looked up: read whole beforehand (FULL cache), or with answers that are remembered for a while (PARTIAL cache)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from penstock.connectors.base.source import ReadLimits, Source
from penstock.errors import ConfigurationError
from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.values import values_of_series
from penstock.sql.connector.options import (
    Option,
    duration,
    flag,
    number,
    text,
)
from penstock.sql.connector.providers import LookupProvider
from penstock.sql.types import DataType

Key = tuple[Any, ...]
Clock = Callable[[], float]

CACHE_OPTIONS: Final[tuple[Option, ...]] = (
    text(
        "lookup.cache",
        "Whether rows that were looked up are kept.",
        default="none",
        choices=("none", "partial"),
    ),
    number("lookup.partial-cache.max-rows", "Most rows in the cache of a subtask."),
    duration("lookup.partial-cache.expire-after-write", "How long rows stay in the cache."),
    duration(
        "lookup.partial-cache.expire-after-access",
        "How long rows stay in the cache without being used.",
    ),
    flag(
        "lookup.partial-cache.cache-missing-key",
        "Whether the cache also holds keys without rows.",
        default=True,
    ),
)


class LoadedLookup:
    """A table that is loaded completely when it is opened, and reloaded periodically if configured. Its source is bounded.

    `keys` are positions in `types`. Columnar callers use `frame`.
    """

    def __init__(
        self,
        source: Source,
        names: Sequence[str],
        types: Sequence[DataType],
        keys: Sequence[int],
        reload_ms: int | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._source = source
        self._names = list(names)
        self._types = list(types)
        self._keys = list(keys)
        self._reload_ms = reload_ms
        self._clock = clock
        self._frame: pl.DataFrame | None = None
        self._rows: dict[Key, list[Key]] | None = None
        self._loaded_at = 0.0

    def open(self, context: Any) -> None:
        """Read the table."""
        self._load()

    def close(self) -> None:
        """Forget the table."""
        self._frame = self._rows = None

    def frame(self) -> pl.DataFrame:
        """Return the whole table, the same object until it is read again."""
        due = self._reload_ms is not None and self._clock() - self._loaded_at >= (
            self._reload_ms / 1000
        )
        if self._frame is None or due:
            return self._load()
        return self._frame

    def lookup(self, keys: Sequence[Key]) -> Iterable[Sequence[Key]]:
        """Return for each key its rows."""
        self.frame()
        if self._rows is None:
            self._rows = self._by_key()
        rows = self._rows
        return [rows.get(key, ()) for key in keys]

    def _load(self) -> pl.DataFrame:
        enumerator = self._source.create_enumerator(1)
        reader = self._source.create_reader()
        frames: list[pl.DataFrame] = []
        try:
            while True:
                splits = list(enumerator.discover())
                for split in splits:
                    frames += [
                        found.records  # type: ignore[misc]
                        for found in reader.read(split, split.start, ReadLimits())
                    ]
                if not splits:
                    break
        finally:
            reader.close()
            enumerator.close()
        found = [frame.select(self._names) for frame in frames if frame.height]
        whole = pl.concat(found) if found else pl.DataFrame(schema=self._names)
        self._frame = whole.rename({name: column(at) for at, name in enumerate(self._names)})
        self._rows = None
        self._loaded_at = self._clock()
        return self._frame

    def _by_key(self) -> dict[Key, list[Key]]:
        assert self._frame is not None
        values = [
            values_of_series(self._frame[column(at)], kind) for at, kind in enumerate(self._types)
        ]
        found: dict[Key, list[Key]] = {}
        for row in zip(*values, strict=True):
            found.setdefault(tuple(row[at] for at in self._keys), []).append(row)
        return found


class CachedLookup:
    """Lookup cache: bounded by rows and time; the least recently used entries are evicted first."""

    def __init__(
        self,
        provider: LookupProvider,
        *,
        max_rows: int | None = None,
        expire_after_write_ms: int | None = None,
        expire_after_access_ms: int | None = None,
        cache_missing_key: bool = True,
        clock: Clock = time.monotonic,
    ) -> None:
        self._provider = provider
        self._max_rows = max_rows
        self._write = None if expire_after_write_ms is None else expire_after_write_ms / 1000
        self._access = None if expire_after_access_ms is None else expire_after_access_ms / 1000
        self._missing = cache_missing_key
        self._clock = clock
        # key -> (rows, when written, when used last), the one used last at the end
        self._known: OrderedDict[Key, tuple[Sequence[Key], float, float]] = OrderedDict()
        self._count = 0

    def open(self, context: Any) -> None:
        """Connect."""
        self._provider.open(context)

    def close(self) -> None:
        """Disconnect."""
        self._provider.close()

    def lookup(self, keys: Sequence[Key]) -> Iterable[Sequence[Key]]:
        """Return for each key its rows; those that are not known are asked for together."""
        now = self._clock()
        answers = [self._find(key, now) for key in keys]
        unknown = [key for key, rows in zip(keys, answers, strict=True) if rows is None]
        if unknown:
            found = iter(list(self._provider.lookup(unknown)))
            for at, key in enumerate(keys):
                if answers[at] is None:
                    answers[at] = rows = list(next(found))
                    self._remember(key, rows, now)
        return [rows or () for rows in answers]

    def _find(self, key: Key, now: float) -> Sequence[Key] | None:
        entry = self._known.get(key)
        if entry is None:
            return None
        rows, written, used = entry
        if (self._write is not None and now - written >= self._write) or (
            self._access is not None and now - used >= self._access
        ):
            self._forget(key)
            return None
        self._known[key] = (rows, written, now)
        self._known.move_to_end(key)
        return rows

    def _remember(self, key: Key, rows: Sequence[Key], now: float) -> None:
        if not rows and not self._missing:
            return
        if key in self._known:
            self._forget(key)
        self._known[key] = (rows, now, now)
        self._count += max(len(rows), 1)
        while self._max_rows is not None and self._count > self._max_rows and self._known:
            self._forget(next(iter(self._known)))

    def _forget(self, key: Key) -> None:
        self._count -= max(len(self._known.pop(key)[0]), 1)


def remembered(provider: LookupProvider, options: Mapping[str, Any], table: str) -> LookupProvider:
    """Return a provider with the PARTIAL cache that the options ask for (see CACHE_OPTIONS), or as it is."""
    if options["lookup.cache"] != "partial":
        return provider
    wanted = {
        "max_rows": options["lookup.partial-cache.max-rows"],
        "expire_after_write_ms": options["lookup.partial-cache.expire-after-write"],
        "expire_after_access_ms": options["lookup.partial-cache.expire-after-access"],
    }
    if all(value is None for value in wanted.values()):
        raise ConfigurationError(
            f"table {table}: the PARTIAL lookup cache needs a size or time limit",
            hint="set 'lookup.partial-cache.max-rows', 'lookup.partial-cache.expire-after-write' or "
            "'lookup.partial-cache.expire-after-access'",
        )
    missing = options["lookup.partial-cache.cache-missing-key"]
    return CachedLookup(provider, **wanted, cache_missing_key=missing)
