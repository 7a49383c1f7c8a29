"""What lookups have found, kept for a while: the answers of a database or a key-value store, also that there was none."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.metrics.metricbase import Counter, MetricGroup


class LookupCache:
    """The last `max_rows` keys that were asked for, each for `ttl` seconds (None: for good) after it was fetched.

    A key that has no answer is kept as well (`caches_missing`), with an answer of None, for `missing_ttl` seconds: a key that is
    asked for all the time and is not there would else be the dearest of all.

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
                "the size of a lookup cache is not a whole number", detail=f"it is {max_rows!r}"
            )
        if max_rows < 0:
            raise ArgumentError(
                "the size of a lookup cache is negative",
                detail=f"max_rows is {max_rows}",
                hint="0 caches nothing",
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
        """Count hits and misses, and show the size, by the names that Flink's lookup caches have."""
        group = metrics.add_group("cache")
        self._hits = group.counter("hitCount")
        self._misses = group.counter("missCount")
        group.gauge("numCachedRecord", lambda: len(self._found))

    def get_all(self, keys: Iterable[Hashable]) -> tuple[dict[Hashable, Any], list[Hashable]]:
        """Return what is known of the keys (None: there is nothing), and the keys to ask for, each once."""
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
        """Keep answers; None for a key that has none. The keys that were not asked for longest make room."""
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
        """Forget everything."""
        self._found.clear()

    def __len__(self) -> int:
        return len(self._found)

    def __getstate__(self) -> dict[str, Any]:
        """Go to a task empty, without metrics."""
        return {**self.__dict__, "_found": OrderedDict(), "_hits": None, "_misses": None}


def _checked_ttl(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentTypeError(
            f"{name} of a lookup cache is not a number of seconds", detail=f"it is {value!r}"
        )
    if value <= 0:
        raise ArgumentError(
            f"{name} of a lookup cache is not positive",
            detail=f"it is {value!r}",
            hint="max_rows=0 caches nothing; a ttl of None keeps rows until others need their place",
        )
    return float(value)
