"""Several sources one after another: for example history from files, then a stream from Kafka."""

from __future__ import annotations

import dataclasses
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
from penstock.errors import ArgumentTypeError, InvalidProgramError


class HybridSource(Source):
    """Reads the first source to its end, then the next one, and so on; only the last one may be unbounded.

    >>> from penstock.connectors.number_sequence.source import NumberSequenceSource
    >>> first, second = NumberSequenceSource(1, 10), NumberSequenceSource(11, 20)
    >>> HybridSource.builder(first).add_source(second).build()
    HybridSource(NumberSequenceSource, NumberSequenceSource)
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = tuple(sources)
        self.carries_timestamps = any(
            getattr(source, "carries_timestamps", True) for source in self.sources
        )

    @staticmethod
    def builder(first_source: Source) -> HybridSourceBuilder:
        """Return a builder, with the source that is read first."""
        return HybridSourceBuilder([]).add_source(first_source)

    def get_boundedness(self) -> Boundedness:
        """Return whether the source is bounded: if the last one is."""
        return self.sources[-1].get_boundedness()

    def get_produced_type(self) -> object:
        """Return the type of the records, if all sources have the same."""
        kinds = [getattr(source, "get_produced_type", lambda: None)() for source in self.sources]
        return kinds[0] if all(kind == kinds[0] for kind in kinds) else None

    def create_enumerator(self, parallelism: int, restored: StateValue = None) -> SplitEnumerator:
        """Create the enumerator; a restored one continues with its current source."""
        return HybridEnumerator(self.sources, parallelism, restored)

    def create_reader(self) -> SourceReader:
        """Create a reader for splits of all sources."""
        return HybridReader(self.sources)

    def adopt_split(self, split: SourceSplit) -> SourceSplit:
        """Delegate to the source that the split belongs to."""
        index, inner = split.payload
        adopted = self.sources[index].adopt_split(inner)
        return dataclasses.replace(split, payload=(index, adopted))

    def adopt_enumerator(self, state: Any) -> object:
        """Delegate to the source that the other job was reading."""
        if state.inner is None:
            return state
        return _Restored(state.index, self.sources[state.index].adopt_enumerator(state.inner))

    def __repr__(self) -> str:
        return f"HybridSource({', '.join(type(source).__name__ for source in self.sources)})"


class HybridSourceBuilder:
    """Builds a HybridSource."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = list(sources)

    def add_source(self, source: Source) -> HybridSourceBuilder:
        """Add a source, which is read after the previous one has finished."""
        if not isinstance(source, Source):
            raise ArgumentTypeError(
                f"not a source: {type(source).__name__}",
                hint="add a Source, such as FileSource or NumberSequenceSource",
            )
        if self._sources and self._sources[-1].get_boundedness() is not Boundedness.BOUNDED:
            raise InvalidProgramError(
                f"{type(self._sources[-1]).__name__} is unbounded, so no source can follow it",
                hint="only the last source of a HybridSource may be unbounded",
            )
        return HybridSourceBuilder([*self._sources, source])

    def build(self) -> HybridSource:
        """Return the source."""
        return HybridSource(self._sources)


@dataclass(frozen=True, slots=True)
class _Restored:
    """The enumerator's state: the index of the current source, and the state of its enumerator."""

    index: int
    inner: Any


class HybridEnumerator(SplitEnumerator):
    """Assigns the splits of one source at a time; switches to the next one when all of them have been read."""

    def __init__(
        self, sources: Sequence[Source], parallelism: int, restored: _Restored | None
    ) -> None:
        self._sources = sources
        self._parallelism = parallelism
        self._index = 0 if restored is None else restored.index
        self._open: Sequence[SourceSplit] = ()
        self._inner = sources[self._index].create_enumerator(
            parallelism, None if restored is None else restored.inner
        )

    def observe(self, unfinished: Sequence[SourceSplit]) -> None:
        """Record the splits that are still being read."""
        self._open = unfinished

    def observe_finished(self, finished: Sequence[SplitProgress]) -> None:
        """Pass finished splits on to the current source's enumerator."""
        own = self._inner_of(finished)
        if own:
            self._inner.observe_finished(own)

    def on_checkpoint(self, splits: Sequence[SplitProgress]) -> None:
        """Pass the progress of splits on to the current source's enumerator."""
        self._inner.on_checkpoint(self._inner_of(splits))

    def _inner_of(self, splits: Sequence[SplitProgress]) -> list[SplitProgress]:
        return [
            dataclasses.replace(each, split=each.split.payload[1])
            for each in splits
            if each.split.payload[0] == self._index
        ]

    def discover(self) -> list[SourceSplit]:
        """Return new splits of the current source; switch to the next one when it has none left to find or to read."""
        while True:
            found = [self._wrap(split) for split in self._inner.discover()]
            last = self._index == len(self._sources) - 1
            if found or self._open or last or not self._inner.no_more_splits():
                return found
            self._inner.close()
            self._index += 1
            self._inner = self._sources[self._index].create_enumerator(self._parallelism)

    def _wrap(self, split: SourceSplit) -> SourceSplit:
        source = self._sources[self._index]
        return dataclasses.replace(
            split,
            split_id=f"{self._index}/{split.split_id}",
            payload=(self._index, split),
            bounded=split.bounded or source.get_boundedness() is Boundedness.BOUNDED,
        )

    def no_more_splits(self) -> bool:
        """Whether the last source has assigned all its splits."""
        return self._index == len(self._sources) - 1 and self._inner.no_more_splits()

    def snapshot(self) -> _Restored:
        """Return the source's index and its enumerator's state."""
        return _Restored(self._index, self._inner.snapshot())

    def has_data(self, positions: Sequence[Any]) -> bool:
        """Whether reading may give records now."""
        if self._index < len(self._sources) - 1:
            return bool(positions)
        return self._inner.has_data(positions)

    def backlog(self, splits: Sequence[SplitProgress]) -> int | None:
        """Return the current source's backlog, in its unit; the backlog of later sources is unknown."""
        self.backlog_unit = self._inner.backlog_unit
        return self._inner.backlog(
            [dataclasses.replace(each, split=each.split.payload[1]) for each in splits]
        )

    def close(self) -> None:
        """Close the current source's enumerator."""
        self._inner.close()


class HybridReader(SourceReader):
    """Reads each split with the reader of its source."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._readers: dict[int, SourceReader] = {}
        self._context: Any = None
        self._wake: Callable[[], None] | None = None

    def use_wake(self, wake: Callable[[], None]) -> None:
        """Keep the callback for the readers."""
        self._wake = wake

    def open(self, context: Any) -> None:
        """Keep the context for the readers, which are created when they are needed."""
        self._context = context

    def read(
        self, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        """Yield records from `position` on."""
        index, inner = split.payload
        yield from self._reader(index).read(inner, position, limits)

    def ordered(self, split: SourceSplit) -> bool:
        """Whether the positions ascend: the source of the split decides."""
        index, inner = split.payload
        return self._reader(index).ordered(inner)

    def next_ready(self, split: SourceSplit, position: object) -> float | None:
        """Return the number of seconds until the split may have records, if its source knows."""
        index, inner = split.payload
        return self._reader(index).next_ready(inner, position)

    def on_checkpoint(self, split: SourceSplit, position: object) -> None:
        """Pass the position of a durable checkpoint on to the reader of the split's source."""
        index, inner = split.payload
        self._reader(index).on_checkpoint(inner, position)

    def _reader(self, index: int) -> SourceReader:
        reader = self._readers.get(index)
        if reader is None:
            reader = self._readers[index] = self._sources[index].create_reader()
            if self._wake is not None:
                reader.use_wake(self._wake)
            reader.open(self._context)
        return reader

    def close(self) -> None:
        """Close the readers."""
        for reader in self._readers.values():
            reader.close()
