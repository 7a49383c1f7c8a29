"""Rules for sources that are seen without a job: splits, positions, waiting."""

from __future__ import annotations

import time
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from penstock.common.user_types import Position
from penstock.connectors.base.source import (
    Boundedness,
    NonBlockingReadLimits,
    SourceBatch,
    SplitProgress,
)
from penstock.testing.conformance.reading import (
    SplitRead,
    copy_of,
    discovered,
    found_splits,
    opened,
    read_splits,
)
from penstock.testing.conformance.rules import (
    RuleBook,
    broken,
    does_not_apply,
    expect_each_once,
    step,
)
from penstock.testing.conformance.setups import Setup, SourceSetup

SOURCE_RULES: RuleBook[SourceSetup] = RuleBook()
COUNT = 40
_POSITIONS = 6  # that are tried in each split
_LOOK_S = 0.1
_MOST_BATCHES = 1000


def filled(setup: SourceSetup, count: int = COUNT) -> list[Any]:
    """Add records and return them."""
    records = [setup.record(number) for number in range(count)]
    with step("add of the setup"):
        setup.add(records)
    return records


def _read_all(setup: SourceSetup, count: int) -> tuple[Any, list[SplitRead]]:
    source = setup.create()
    splits = found_splits(source)
    return source, read_splits(setup, source, [(split, split.start) for split in splits], count)


def check_arguments(setup: Setup) -> None:
    """Try calls that must be refused."""
    calls = setup.wrong_arguments()
    if not calls:
        raise does_not_apply("the setup names no wrong arguments")
    for number, call in enumerate(calls, start=1):
        where = f"wrong_arguments, call {number}"
        try:
            made = call()
        except (ValueError, TypeError):
            continue
        except Exception as error:
            raise broken(where, f"refused by a {type(error).__name__}: {error}") from error
        raise broken(where, f"nothing is refused: it returns {made!r}")


@SOURCE_RULES.rule("wrong arguments are rejected by the constructor, not when the job runs")
def _arguments(setup: SourceSetup, _: Path) -> None:
    check_arguments(setup)


@SOURCE_RULES.rule("source, splits, positions and the enumerator's state can be pickled")
def _pickles(setup: SourceSetup, _: Path) -> None:
    records = filled(setup)
    source = setup.create()
    splits = found_splits(source)
    source = copy_of(source, "the source")
    reads = read_splits(setup, source, [(split, split.start) for split in splits], len(records))
    for read in reads:
        for batch in read.batches:
            copy_of(batch, "a batch")
    found = [record for read in reads for record in read.records]
    expect_each_once(setup, "reading all splits, everything pickled", records, found)


@SOURCE_RULES.rule("each split is discovered once, with a unique id, also after a restart")
def _discovery(setup: SourceSetup, _: Path) -> None:
    filled(setup)
    source = setup.create()
    enumerator = source.create_enumerator(2)
    fresh = copy_of(enumerator.snapshot(), "what enumerator.snapshot returns")
    splits = discovered(enumerator)
    ids = [split.split_id for split in splits]
    if len(set(ids)) < len(ids):
        raise broken("enumerator.discover", f"two splits have one id: {sorted(ids)}")
    with step("enumerator.discover, again"):
        enumerator.observe(splits)
        again = [split.split_id for split in enumerator.discover() if split.split_id in ids]
    if again:
        raise broken("enumerator.discover, again", f"it returns {again} a second time")
    memory = copy_of(enumerator.snapshot(), "what enumerator.snapshot returns")
    bounded = source.get_boundedness() is Boundedness.BOUNDED
    if enumerator.no_more_splits() and not bounded and not all(split.bounded for split in splits):
        raise broken("enumerator.no_more_splits", "True although the source has no end")
    enumerator.close()
    where = "discover of an enumerator with the memory of the first"
    with step(where):
        restored = setup.create().create_enumerator(3, memory)
        restored.observe(splits)
        again = [split.split_id for split in restored.discover() if split.split_id in ids]
        restored.close()
    if again:
        raise broken(where, f"it returns {again} a second time")
    where = "discover of an enumerator with a memory from before the first discover"
    with step(where):
        restored = setup.create().create_enumerator(2, fresh)
        found = sorted(split.split_id for split in discovered(restored))
        restored.close()
    if fresh is not None and found != sorted(ids):
        raise broken(where, f"it returns {found}, not {sorted(ids)}")


@SOURCE_RULES.rule("reading from any position returns exactly the rest")
def _positions(setup: SourceSetup, _: Path) -> None:
    records = filled(setup)
    source, reads = _read_all(setup, len(records))
    found = [record for read in reads for record in read.records]
    expect_each_once(setup, "reading all splits from their start", records, found)
    for read in reads:
        for index in _spread(len(read.batches)):
            rest = [record for batch in read.batches[index + 1 :] for record in batch.records]
            _expect_rest(setup, source, read, read.batches[index].position, rest)


def _spread(count: int) -> list[int]:
    """Return some indexes, the last one always."""
    every = max(1, count // _POSITIONS)
    return sorted({*range(0, count, every), count - 1} - {-1})


def _expect_rest(
    setup: SourceSetup, source: Any, read: SplitRead, position: Position, rest: list[Any]
) -> None:
    position = copy_of(position, "a position")
    (again,) = read_splits(setup, source, [(read.split, position)], len(rest))
    with opened(source) as reader:
        ordered = reader.ordered(read.split)
    records = again.records
    if ordered:  # records before the position are dropped by the runtime
        records = [
            record
            for batch in again.batches
            for record, at in zip(batch.records, _positions_of(batch), strict=True)
            if at is None or at > position
        ]
    where = f"a new reader of split {read.split.split_id!r} at position {position!r}"
    expect_each_once(setup, where, rest, records)


def _positions_of(batch: SourceBatch) -> list[Any]:
    return list(batch.positions) if batch.positions is not None else [None] * len(batch.records)


@SOURCE_RULES.rule("a split with ordered positions reports them in ascending order")
def _redelivery(setup: SourceSetup, _: Path) -> None:
    records = filled(setup)
    source, reads = _read_all(setup, len(records))
    ordered = 0
    for read in reads:
        with opened(source) as reader:
            if not reader.ordered(read.split):
                continue
        ordered += 1
        for batch in read.batches:
            _check_order(read, batch)
        places = [at for batch in read.batches for at in _positions_of(batch) if at is not None]
        for index in _spread(len(places)):
            _expect_rest(setup, source, read, places[index], read.records[index + 1 :])
    if not ordered:
        raise does_not_apply("no split says that its positions are ordered")


def _check_order(read: SplitRead, batch: SourceBatch) -> None:
    where = f"a batch of split {read.split.split_id!r} that ends at {batch.position!r}"
    if batch.positions is None:
        if batch.start is None and batch.records:
            raise broken(where, "it has neither positions nor start")
        return
    places = list(batch.positions)
    if len(places) != len(batch.records):
        raise broken(where, f"{len(places)} positions for {len(batch.records)} records")
    if any(not one < other for one, other in pairwise(places)):
        raise broken(where, f"its positions do not ascend: {places}")
    if places and not batch.malformed and places[-1] != batch.position:
        raise broken(where, f"the last of its positions is {places[-1]!r}")


@SOURCE_RULES.rule("a reader with NonBlockingReadLimits does not block")
def _does_not_block(setup: SourceSetup, _: Path) -> None:
    records = filled(setup)
    source, reads = _read_all(setup, len(records))
    endless = source.get_boundedness() is not Boundedness.BOUNDED
    with opened(source) as reader:
        for read in reads:
            where = f"reader.read of split {read.split.split_id!r} at its end, with NonBlockingReadLimits"
            with step(where):
                # The machine may be busy: of several looks the quickest counts.
                took = [_look(reader, read, where, endless=endless) for _ in range(4)]
            if min(took) > _LOOK_S:
                raise broken(where, f"each look took {min(took):.2f} s, or longer")
            with step(f"reader.next_ready of split {read.split.split_id!r}"):
                reader.next_ready(read.split, read.position)


def _look(reader: Any, read: SplitRead, where: str, *, endless: bool) -> float:
    begun = time.monotonic()
    batches = list(
        islice(reader.read(read.split, read.position, NonBlockingReadLimits()), _MOST_BATCHES)
    )
    took = time.monotonic() - begun
    if endless and len(batches) == _MOST_BATCHES:
        raise broken(where, "it does not end although there is nothing more")
    if any(batch.records for batch in batches):
        raise broken(where, f"it gives {sum(len(batch.records) for batch in batches)} records more")
    return took


def _confirm(enumerator: Any, reader: Any, reached: SplitProgress) -> None:
    """Notify both of a checkpoint. A slow notification is repeated once, because the machine may be busy."""
    for last in (False, False, True):
        begun = time.monotonic()
        with step("enumerator.on_checkpoint"):
            enumerator.on_checkpoint([reached])
        with step("reader.on_checkpoint"):
            reader.on_checkpoint(reached.split, reached.position)
        took = time.monotonic() - begun
        if took <= 1:
            return
        if last:
            raise broken("on_checkpoint", f"it took {took:.1f} s")


@SOURCE_RULES.rule("checkpoint notifications neither block nor lose later records")
def _confirmations(setup: SourceSetup, _: Path) -> None:
    records = filled(setup)
    source, reads = _read_all(setup, len(records))
    enumerator = source.create_enumerator(1)
    list(enumerator.discover())
    with opened(source) as reader:
        for read in reads:
            if not read.batches:
                continue
            middle = len(read.batches) // 2
            position = read.batches[middle].position
            _confirm(enumerator, reader, SplitProgress(read.split, position))
            rest = [record for batch in read.batches[middle + 1 :] for record in batch.records]
            _expect_rest(setup, source, read, position, rest)
            with step("enumerator.has_data, backlog"):
                enumerator.has_data([position])
                enumerator.backlog([SplitProgress(read.split, position)])
    enumerator.close()


@SOURCE_RULES.rule("a reader that is left in the middle of a batch can be closed")
def _left(setup: SourceSetup, _: Path) -> None:
    filled(setup)
    source = setup.create()
    for split in found_splits(source):
        with opened(source) as reader, step(f"leaving split {split.split_id!r}"):
            batches = reader.read(split, split.start, NonBlockingReadLimits(3))
            next(iter(batches), None)
            close = getattr(batches, "close", None)
            if close is not None:
                close()


@SOURCE_RULES.rule("a record of a megabyte is read like any other")
def _big(setup: SourceSetup, _: Path) -> None:
    big = setup.big_record()
    if big is None:
        raise does_not_apply("the setup has no big record")
    records = [setup.record(0), big, setup.record(1)]
    setup.add(records)
    _, reads = _read_all(setup, len(records))
    found = [record for read in reads for record in read.records]
    expect_each_once(setup, "reading all splits", records, found)
