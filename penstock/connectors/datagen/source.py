"""A source that computes its records from their index."""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.common.user_types import Position, StateValue
from penstock.connectors.base.source import (
    Boundedness,
    ReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
    SplitProgress,
)
from penstock.connectors.base.static_splits import StaticSplitEnumerator
from penstock.errors import ArgumentError, ArgumentTypeError

# Seeding a random.Random costs 4 us, so one seed serves a block of consecutive records.
RANDOM_BLOCK = 64
# After a longer pause (a restart, a suspended machine) the rate resumes from now instead of catching up.
CATCH_UP_SECONDS = 5.0
LONGEST_NAP_SECONDS = 1.0
# In pipelined mode, records of a high rate are emitted in batches of a millisecond: one batch per record would cost too much.
TICK_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class RateLimiterStrategy:
    """How fast a generator emits, in total over all its subtasks."""

    records_per_second: float | None = None

    @staticmethod
    def per_second(records_per_second: float) -> RateLimiterStrategy:
        """Emit this many records per second in total."""
        if isinstance(records_per_second, bool) or not isinstance(records_per_second, (int, float)):
            raise ArgumentTypeError(
                "the rate is not a number", detail=f"records_per_second={records_per_second!r}"
            )
        if not 0 < records_per_second < float("inf"):
            raise ArgumentError(
                "the rate must be positive",
                detail=f"records_per_second={records_per_second}",
                hint="RateLimiterStrategy.no_op() means no limit",
            )
        return RateLimiterStrategy(float(records_per_second))

    @staticmethod
    def no_op() -> RateLimiterStrategy:
        """Emit as fast as the job consumes the records."""
        return RateLimiterStrategy()


class DataGeneratorSource(Source):
    """Emits `function(index)` for index 0, 1, 2, ... up to `count`, or forever.

    `generator_function` is a callable or an object with a `map` method. It takes the index, or the index and a
    `random.Random`. The random numbers depend only on `seed` and the index's block of 64, so a re-read after a
    failure gives the same records, whatever the parallelism. `timestamp` computes a record's event time (epoch
    milliseconds) from its value; `out_of_order_ms` moves each timestamp back by a random amount up to that bound.

    Indexes are assigned to subtasks round-robin, so records with near indexes are emitted at about the same time. The rate is
    the total of all subtasks. Records that were not emitted during a pause of more than 5 seconds are not made up for.

    >>> source = DataGeneratorSource(lambda i: i * i, count=4)
    >>> split, = source.create_enumerator(1).discover()
    >>> [batch.records for batch in source.create_reader().read(split, split.start, ReadLimits())]
    [[0, 1, 4, 9]]
    """

    def __init__(
        self,
        generator_function: Any,
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        type_info: Any = None,
        *,
        rate_per_second: float | None = None,
        seed: int = 0,
        timestamp: Callable[[Any], int] | None = None,
        out_of_order_ms: int = 0,
    ) -> None:
        function = getattr(generator_function, "map", generator_function)
        if not callable(function):
            raise ArgumentTypeError(
                "the generator function is not callable",
                detail=f"got {generator_function!r}",
                hint="pass a function of the index, or an object with a map method",
            )
        if count is not None and (
            not isinstance(count, int) or isinstance(count, bool) or count < 0
        ):
            raise ArgumentError(
                "invalid count",
                detail=f"count={count!r}",
                hint="pass an integer of at least 0, or None for an endless stream",
            )
        if rate_limiter_strategy is not None and rate_per_second is not None:
            raise ArgumentError(
                "rate_per_second and a rate limiter strategy are mutually exclusive",
                hint="remove rate_per_second",
            )
        if rate_per_second is not None:
            rate_limiter_strategy = RateLimiterStrategy.per_second(rate_per_second)
        if out_of_order_ms < 0:
            raise ArgumentError(
                "out_of_order_ms must not be negative",
                detail=f"out_of_order_ms={out_of_order_ms}",
            )
        if out_of_order_ms and timestamp is None:
            raise ArgumentError(
                "out_of_order_ms needs timestamps", hint="pass timestamp=, a function of the record"
            )
        self.generator_function = generator_function
        self.count = count
        self.rate = (rate_limiter_strategy or RateLimiterStrategy.no_op()).records_per_second
        self.type_info = type_info
        self.seed = seed
        self.timestamp = timestamp
        self.out_of_order_ms = out_of_order_ms
        self.takes_random = _takes_two(function)

    def get_boundedness(self) -> Boundedness:
        """Return whether the source is bounded: with a count it is."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self.count is None else Boundedness.BOUNDED

    def get_produced_type(self) -> object:
        """Return the declared type of the records, or None."""
        return self.type_info

    def create_enumerator(self, parallelism: int, restored: StateValue = None) -> SplitEnumerator:
        """Create the enumerator: one split per subtask."""
        now = time.time()
        block = RANDOM_BLOCK if self.takes_random else 1
        splits = [
            SourceSplit(
                f"generator-{index}-of-{parallelism}",
                (index, parallelism, block),
                (index * block, now),
            )
            for index in range(parallelism)
        ]
        planned = parallelism if restored is None else int(restored)
        return GeneratorEnumerator(splits, self.rate, self.count, planned, restored)

    def create_reader(self) -> SourceReader:
        """Create a reader."""
        return GeneratorReader(self)


class GeneratorEnumerator(StaticSplitEnumerator):
    """Assigns a generator's splits; knows from the rate whether records are due."""

    def __init__(
        self,
        splits: Sequence[SourceSplit],
        rate: float | None,
        count: int | None,
        planned: int,
        restored: StateValue = None,
    ) -> None:
        super().__init__(splits, restored)
        self._planned = planned
        self._rate = None if rate is None else rate / planned  # per split
        self._count = count
        self.clock: Callable[[], float] = time.time

    def snapshot(self) -> StateValue:
        """Return the number of splits, which does not change with the parallelism."""
        return None if super().snapshot() is None else self._planned

    def has_data(self, positions: Sequence[Any]) -> bool:
        """Whether a split at one of these positions (next index, time) has a record due."""
        if self._rate is None or self._count is not None:
            return bool(positions)
        now, rate = self.clock(), self._rate
        # A position in the future means that the clock was set back; the reader starts counting again.
        return any(
            position[1] - now > 1 / rate or (now - position[1]) * rate + 1e-6 >= 1
            for position in positions
        )

    def backlog(self, splits: Sequence[SplitProgress]) -> int | None:
        """Return how many records are due by the rate, or left up to the count; None if both are unlimited."""
        if self._rate is None and self._count is None:
            return None
        now = self.clock()
        return sum(self._waiting(each, now) for each in splits)

    def _waiting(self, progress: SplitProgress, now: float) -> int:
        index, accounted = progress.position or progress.split.start
        amounts = []
        if self._rate is not None:
            amounts.append(max(0, _due(now, _accounted(now, accounted, self._rate), self._rate)))
        if self._count is not None:
            share, splits, block = progress.split.payload
            amounts.append(
                max(
                    0,
                    _owned_below(self._count, share, splits, block)
                    - _owned_below(index, share, splits, block),
                )
            )
        return min(amounts)


class GeneratorReader(SourceReader):
    """Computes records. A position is the next index, and the time up to which records are accounted for by the rate.

    An unbounded generator returns when nothing is due. A bounded one waits, because returning would mean that the split is
    finished; at the deadline, and from time to time before it in case the clock is set back, it yields an empty batch, at
    which the caller may stop.
    """

    def __init__(self, source: DataGeneratorSource) -> None:
        self._source = source
        self._function = getattr(source.generator_function, "map", source.generator_function)
        self.clock: Callable[[], float] = time.time
        self.sleep: Callable[[float], None] = time.sleep

    def open(self, context: Any) -> None:
        """Open the generator function, if it has an open method."""
        opener = getattr(self._source.generator_function, "open", None)
        if callable(opener):
            opener(context)

    def close(self) -> None:
        """Close the generator function, if it has a close method."""
        closer = getattr(self._source.generator_function, "close", None)
        if callable(closer):
            closer()

    def read(
        self, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        """Yield the records that are due."""
        share, splits, block = split.payload
        index, accounted = split.start if position is None else position
        source = self._source
        rate = None if source.rate is None else source.rate / splits
        while source.count is None or index < source.count:
            size = limits.batch_size
            if rate is not None:
                now = self.clock()
                accounted = _accounted(now, accounted, rate)
                due = _due(now, accounted, rate)
                if due < 1:
                    if source.count is None:
                        return
                    pause = accounted + 1 / rate - now
                    if limits.deadline is None:
                        self.sleep(pause)
                        continue
                    nap = min(pause, max(0.0, limits.deadline - now), LONGEST_NAP_SECONDS)
                    if nap > 0:
                        self.sleep(nap)
                    if nap < pause:
                        yield SourceBatch([], (index, accounted))
                    continue
                size = min(size, due)
            indexes = _next_indexes(index, size, share, splits, block, source.count)
            records, timestamps = self.compute(indexes)
            if rate is not None:
                accounted += len(indexes) / rate
            index = _following(indexes[-1], splits, block)
            yield SourceBatch(records, (index, accounted), timestamps)

    def next_ready(self, split: SourceSplit, position: Position) -> float:
        """Return when the next record is due by the rate, but not before the next millisecond."""
        if self._source.rate is None:
            return 0.0
        _, splits, _ = split.payload
        _, accounted = split.start if position is None else position
        rate: float = self._source.rate / splits
        now = self.clock()
        return max(0.0, _accounted(now, accounted, rate) + max(1 / rate, TICK_SECONDS) - now)

    def compute(self, indexes: list[int]) -> tuple[Any, list[int] | None]:
        """Return the records with these indexes, and their timestamps."""
        source, function = self._source, self._function
        if source.takes_random:
            records = self._compute_random(indexes)
        else:
            records = list(map(function, indexes))
        if source.timestamp is None:
            return records, None
        timestamps = list(map(source.timestamp, records))
        if source.out_of_order_ms:
            timestamps = [
                timestamp - _mixed(source.seed, index) % (source.out_of_order_ms + 1)
                for timestamp, index in zip(timestamps, indexes, strict=True)
            ]
        return records, timestamps

    def _compute_random(self, indexes: list[int]) -> list[Any]:
        function, seed = self._function, self._source.seed
        generator = random.Random()  # noqa: S311 - test data, not secrets
        records: list[Any] = []
        current = -1
        for index in indexes:
            block, within = divmod(index, RANDOM_BLOCK)
            if block != current:
                current = block
                generator.seed(_mixed(seed, block))
                for skipped in range(
                    index - within, index
                ):  # advance the random generator to this index
                    function(skipped, generator)
            records.append(function(index, generator))
        return records


def _accounted(now: float, accounted: float, rate: float) -> float:
    """Return the time up to which the rate is accounted for; long pauses and clocks that were set back are not made up for."""
    if accounted - now > 1 / rate:
        accounted = now - 1 / rate
    return max(accounted, now - max(CATCH_UP_SECONDS, 1 / rate))


def _due(now: float, accounted: float, rate: float) -> int:
    return int((now - accounted) * rate + 1e-6)


def _owned_below(end: int, share: int, splits: int, block: int) -> int:
    """Return how many indexes below `end` a split owns."""
    rounds, rest = divmod(end, splits * block)
    return rounds * block + min(max(rest - share * block, 0), block)


def _next_indexes(
    index: int, size: int, share: int, splits: int, block: int, count: int | None
) -> list[int]:
    """Return up to `size` indexes of one split, from `index` on; split i owns the blocks i, i + splits, ..."""
    if block == 1:
        stop = index + size * splits
        return list(range(index, stop if count is None else min(stop, count), splits))
    found: list[int] = []
    while len(found) < size and (count is None or index < count):
        end = min((index // block + 1) * block, index + size - len(found))
        if count is not None:
            end = min(end, count)
        found.extend(range(index, end))
        index = _following(end - 1, splits, block)
    assert all(i // block % splits == share for i in found[:1])
    return found


def _following(index: int, splits: int, block: int) -> int:
    following = index + 1
    return following if following % block else following + (splits - 1) * block


def _mixed(seed: int, number: int) -> int:
    """Mix two numbers to 64 well-distributed bits (the finalizer of SplitMix64)."""
    mask = (1 << 64) - 1
    x = (seed * 0x9E3779B97F4A7C15 + number * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


def _takes_two(function: Callable[..., Any]) -> bool:
    """Whether a function has a second parameter without a default: it wants a random generator."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in such as str
        return False
    positional = [
        p
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    return len(positional) >= 2
