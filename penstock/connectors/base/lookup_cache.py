"""A cache of lookup results of a database or a key-value store, including missing keys."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.metrics.metricbase import Counter, MetricGroup


class LookupCache:
    """Caches the last `max_rows` requested keys, each for `ttl` seconds (None: forever) after it was fetched.

    A missing key is cached as well (`caches_missing`), with a value of None, for `missing_ttl` seconds: otherwise a missing
    key that is requested often would cause the most lookups.

    >>> cache = LookupCache(max_rows=2, ttl=60)
    >>> cache.put_all({1: "one", 2: None})
    >>> cache.get_all([1, 2, 3])
    ({1: 'one', 2: None}, [3])
    """

    def __init__(
        self,
        max_rows: int = 10_000,
        ttl: float | None = 60.0,
        *,
        caches_missing: bool = True,
        missing_ttl: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not isinstance(max_rows, int) or isinstance(max_rows, bool):
            raise ArgumentTypeError(
                "max_rows of a lookup cache is not an integer", detail=f"max_rows={max_rows!r}"
            )
        if max_rows < 0:
            raise ArgumentError(
                "max_rows of a lookup cache must not be negative",
                detail=f"max_rows={max_rows}",
                hint="use 0 to disable the cache",
            )
        self.max_rows = max_rows
        self.ttl = _checked_ttl("ttl", ttl)
        self.missing_ttl = (
            self.ttl if missing_ttl is None else _checked_ttl("missing_ttl", missing_ttl)
        )
        self.caches_missing = caches_missing
        self._clock = clock
        self._found: OrderedDict[Hashable, tuple[float | None, Any]] = OrderedDict()
        self._hits: Counter | None = None
        self._misses: Counter | None = None

    def report_to(self, metrics: MetricGroup) -> None:
        """Register hits, misses and the size as metrics, with the names of Flink's lookup caches."""
        group = metrics.add_group("cache")
        self._hits = group.counter("hitCount")
        self._misses = group.counter("missCount")
        group.gauge("numCachedRecord", lambda: len(self._found))

    def get_all(self, keys: Iterable[Hashable]) -> tuple[dict[Hashable, Any], list[Hashable]]:
        """Return the cached values of keys (None: known to be missing), and the keys to fetch, each once."""
        known: dict[Hashable, Any] = {}
        wanted: dict[Hashable, None] = {}
        hits = 0
        now = self._clock()
        for key in keys:
            entry = self._found.get(key)
            if entry is not None and (entry[0] is None or now < entry[0]):
                self._found.move_to_end(key)
                known[key] = entry[1]
                hits += 1
            else:
                wanted[key] = None
        if self._hits is not None and self._misses is not None:
            self._hits.inc(hits)
            self._misses.inc(len(wanted))
        return known, list(wanted)

    def put_all(self, answers: Mapping[Any, Any]) -> None:
        """Cache values; None for a missing key. The least recently requested keys are evicted."""
        now = self._clock()
        for key, answer in answers.items():
            if answer is None and not self.caches_missing:
                self._found.pop(key, None)
                continue
            ttl = self.missing_ttl if answer is None else self.ttl
            self._found[key] = (None if ttl is None else now + ttl, answer)
            self._found.move_to_end(key)
        while len(self._found) > self.max_rows:
            self._found.popitem(last=False)

    def clear(self) -> None:
        """Remove all entries."""
        self._found.clear()

    def __len__(self) -> int:
        return len(self._found)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without entries and metrics."""
        return {**self.__dict__, "_found": OrderedDict(), "_hits": None, "_misses": None}


def _checked_ttl(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentTypeError(
            f"{name} of a lookup cache is not a number of seconds", detail=f"got {value!r}"
        )
    if value <= 0:
        raise ArgumentError(
            f"{name} of a lookup cache must be positive",
            detail=f"got {value!r}",
            hint="use max_rows=0 to disable the cache; a ttl of None keeps rows until they are evicted",
        )
    return float(value)
