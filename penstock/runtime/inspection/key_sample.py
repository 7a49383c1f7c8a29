"""Samples frequent keys of a subtask's input, only while requested, from some records of each batch."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any, Final

from penstock.errors.user_errors import shorten
from penstock.runtime.inspection.requests import FrequentKeys, KeySamples
from penstock.runtime.records import Batch

# Number of keys counted per batch: takes 20 us, while processing a batch of 1000 records takes a millisecond.
_OF_A_BATCH: Final = 64


class KeySample:
    """Counts keys: `add` is called by the thread that processes records, everything else by the requesting thread.

    >>> from penstock.graph.task_id import TaskId
    >>> from penstock.runtime.records import RowBatch
    >>> sample = KeySample(KeySamples(TaskId("sum", 0), keys=4))
    >>> sample.add(RowBatch([1, 2, 3, 4], keys=["a", "b", "a", "a"]))
    >>> sample.full.is_set(), sample.result()
    (True, FrequentKeys(sampled=4, distinct=2, top=(("'a'", 3), ("'b'", 1))))
    """

    def __init__(self, request: KeySamples) -> None:
        self._wanted = request.keys
        self._top = request.top
        self._sampled = 0
        self._random = random.Random()  # noqa: S311 - for sampling only
        self._counts: Counter[Any] = Counter()
        self.full = threading.Event()

    def add(self, batch: Batch) -> None:
        """Count some keys of a batch."""
        keys = batch.keys
        if not keys or self._sampled >= self._wanted:
            return
        chosen = keys if len(keys) <= _OF_A_BATCH else self._random.choices(keys, k=_OF_A_BATCH)
        self._counts.update(chosen)
        self._sampled += len(chosen)
        if self._sampled >= self._wanted:
            self.full.set()

    def result(self) -> FrequentKeys:
        """Return the counts."""
        counts = Counter(dict(self._counts))  # the other thread may be adding the last batch
        top = tuple((shorten(key), count) for key, count in counts.most_common(self._top))
        return FrequentKeys(sum(counts.values()), len(counts), top)
