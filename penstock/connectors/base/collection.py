"""A bounded source of the elements of a Python collection."""

from __future__ import annotations

import bisect
import hashlib
import pickle
from collections.abc import Iterable, Iterator
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
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError
from penstock.files.file_system import resolve
from penstock.files.paths import join_path
from penstock.pickling.portable_pickles import is_for_a_driver

INLINE_LIMIT = 1 << 20
BLOCK_RECORDS = 4096


@dataclass(frozen=True, slots=True)
class CollectionBlocks:
    """The elements of a split: pickled blocks, inline or in a file.

    `ends[i]` is the number of elements up to and including block i. If `file` is None, `blocks` holds the pickles;
    else `offsets[i]` and `offsets[i + 1]` are the bounds of block i in the file, and `digests[i]` is its SHA-256, because others
    may be able to write the file, and it is unpickled.
    """

    ends: tuple[int, ...]
    blocks: tuple[bytes, ...] = ()
    file: str | None = None
    offsets: tuple[int, ...] = ()
    digests: tuple[bytes, ...] = ()


class CollectionSource(Source):
    """Emits the elements of a collection, in order.

    The elements are pickled once, on the driver. Under 1 MB in total they travel inside the splits; more than that is
    written below the directory that the driver names with `attach_storage` before it asks for the enumerator (without
    one, everything stays inline). A split's position is the number of its elements that were read.

    Collections are read by one subtask unless `splits` asks for more; then split i holds a contiguous part.
    """

    def __init__(
        self, elements: Iterable[Any], *, timestamps: Iterable[int] | None = None, splits: int = 1
    ) -> None:
        if isinstance(elements, (str, bytes)):
            raise ArgumentTypeError(
                "a collection source needs a list of elements",
                detail=f"got a single {type(elements).__name__}",
                hint="wrap it in a list",
            )
        try:
            self._elements: list[Any] | None = list(elements)
        except TypeError:
            raise ArgumentTypeError(
                "a collection source needs a list of elements", detail=f"got {elements!r}"
            ) from None
        self._timestamps = None if timestamps is None else list(timestamps)
        self.carries_timestamps = timestamps is not None
        if self._timestamps is not None and len(self._timestamps) != len(self._elements):
            raise ArgumentError(
                "a collection needs one timestamp per element",
                detail=f"{len(self._elements)} elements, {len(self._timestamps)} timestamps",
            )
        if splits < 1:
            raise ArgumentError(
                "a collection source needs at least one split", detail=f"splits={splits}"
            )
        self._splits = splits
        self._storage: str | None = None

    def attach_storage(self, path: str) -> None:
        """Set a directory (path or URI) that exists as long as the job and that tasks can read."""
        self._storage = path

    def get_boundedness(self) -> Boundedness:
        """Return whether the source is bounded: always."""
        return Boundedness.BOUNDED

    def create_enumerator(self, parallelism: int, restored: StateValue = None) -> SplitEnumerator:
        """Create the enumerator; the elements are pickled here."""
        if restored is not None:
            return StaticSplitEnumerator((), restored, left=_elements_left)
        return StaticSplitEnumerator(self._plan_splits(), left=_elements_left)

    def adopt_split(self, split: SourceSplit) -> SourceSplit:
        """Replace elements that the other job stored in files, which were deleted with it, with those of this program."""
        if split.payload.file is None:
            return split
        own = {planned.split_id: planned for planned in self._plan_splits()}
        found = own.get(split.split_id)
        if found is None or found.payload.ends != split.payload.ends:
            raise RecordError(
                "the collection differs from the one that the checkpoint was reading",
                detail=f"{split.split_id} had {split.payload.ends[-1]} elements",
                hint="keep the collection unchanged, or give the source another uid to read it from the start",
            )
        return found

    def _plan_splits(self) -> list[SourceSplit]:
        if self._elements is None:
            raise RecordError(
                "the elements of a collection source are missing",
                detail="the source was created in another process, without its elements",
                hint="use the source in the process that created it",
            )
        total = len(self._elements)
        count = max(1, min(self._splits, total))
        bounds = [total * index // count for index in range(count + 1)]
        packed = [self._pack(bounds[i], bounds[i + 1]) for i in range(count)]
        size = sum(len(block) for blocks, _ in packed for block in blocks)
        splits = []
        for index, (blocks, ends) in enumerate(packed):
            if size >= INLINE_LIMIT and self._storage is not None:
                payload = _store(self._storage, blocks, ends)
            else:
                payload = CollectionBlocks(ends, blocks)
            splits.append(SourceSplit(f"collection-{index}", payload, 0))
        return splits

    def create_reader(self) -> SourceReader:
        """Create a reader."""
        return _CollectionReader()

    def _pack(self, start: int, end: int) -> tuple[tuple[bytes, ...], tuple[int, ...]]:
        from penstock.pickling import cloudpickling

        assert self._elements is not None
        blocks = []
        ends = []
        for first in range(start, end, BLOCK_RECORDS):
            last = min(first + BLOCK_RECORDS, end)
            values = self._elements[first:last]
            times = None if self._timestamps is None else self._timestamps[first:last]
            try:
                blocks.append(cloudpickling.dumps((values, times), protocol=5))
            except Exception as error:
                raise RecordError(
                    "an element of a collection cannot be pickled",
                    detail=f"elements {first} to {last - 1}: {type(error).__name__}: {error}",
                    hint="use plain values, or classes at the top level of a module",
                ) from error
            ends.append(last - start)
        return tuple(blocks), tuple(ends)

    def __getstate__(self) -> dict[str, Any]:
        if is_for_a_driver():
            return self.__dict__
        # The elements travel in the splits; the source itself is sent to every task of every epoch.
        return {**self.__dict__, "_elements": None, "_timestamps": None}

    def __repr__(self) -> str:
        size = "?" if self._elements is None else len(self._elements)
        return f"CollectionSource({size} elements)"


def _elements_left(progress: SplitProgress) -> int:
    data: CollectionBlocks = progress.split.payload
    return max(0, data.ends[-1] - (progress.position or 0)) if data.ends else 0


def _store(storage: str, blocks: tuple[bytes, ...], ends: tuple[int, ...]) -> CollectionBlocks:
    digest = hashlib.blake2s(digest_size=12)
    offsets = [0]
    for block in blocks:
        digest.update(block)
        offsets.append(offsets[-1] + len(block))
    file = join_path(storage, f"collection-{digest.hexdigest()}.pickles")
    files, path = resolve(file)
    known = files.info(path)
    if known is None or known.size != offsets[-1]:  # a second start of the same job reuses its file
        temporary = f"{path}.tmp"
        out = files.open_output(temporary)
        for block in blocks:
            out.write(block)
        files.finish(out)
        files.rename(temporary, path)
    digests = tuple(hashlib.sha256(block).digest() for block in blocks)
    return CollectionBlocks(ends, (), file, tuple(offsets), digests)


class _CollectionReader(SourceReader):
    def read(
        self, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        data: CollectionBlocks = split.payload
        at = position or 0
        if not data.ends or at >= data.ends[-1]:
            return
        block = bisect.bisect_right(data.ends, at)
        for index in range(block, len(data.ends)):
            values, times = pickle.loads(_load(data, index))
            first = data.ends[index - 1] if index else 0
            while at < data.ends[index]:
                low = at - first
                high = min(low + limits.batch_size, len(values))
                at = first + high
                yield SourceBatch(values[low:high], at, None if times is None else times[low:high])


def _load(data: CollectionBlocks, index: int) -> bytes:
    if data.file is None:
        return data.blocks[index]
    files, path = resolve(data.file)
    try:
        with files.open_input(path) as stream:
            stream.seek(data.offsets[index])
            block = stream.read(data.offsets[index + 1] - data.offsets[index])
    except FileNotFoundError:
        raise RecordError(
            "the stored elements of a collection source no longer exist",
            detail=f"file: {data.file}",
            hint="the job's storage directory must exist as long as the job and be readable by tasks",
        ) from None
    if hashlib.sha256(block).digest() != data.digests[index]:
        raise RecordError(
            "the stored elements of a collection source do not match their checksum",
            detail=f"file: {data.file}",
            hint="the file is damaged or was changed: start the job again without a checkpoint",
        )
    return block
