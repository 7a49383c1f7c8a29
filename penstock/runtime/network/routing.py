"""Routers: select the target subtask of each record of an edge."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from decimal import Decimal
from itertools import chain
from typing import Any

from penstock.common.user_types import StateValue
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError
from penstock.errors.user_errors import shorten
from penstock.graph.deployment import ResultEdge
from penstock.graph.key_groups import holds_nan, key_group_of, subtask_of
from penstock.graph.keys import as_key, as_keys
from penstock.pickling.portable_pickles import NotPicklableError, is_picklable
from penstock.runtime.network.messages import DATA
from penstock.runtime.network.writers import ResultWriter
from penstock.runtime.records import Batch
from penstock.runtime.user_code import RecordFailedError, close_functions, method_of, open_function

_ROUTES_KEPT = 200_000
_MAX_RECORDS = 16_384
_FIRST_RECORDS = 1_024


def connected_targets(partitioning: str, subtask: int, sources: int, targets: int) -> list[int]:
    """Return the target subtasks that `subtask` has a channel to.

    >>> connected_targets("RESCALE", 0, 2, 4), connected_targets("RESCALE", 1, 4, 2)
    ([0, 1], [0])
    """
    if partitioning == "FORWARD":
        return [subtask]
    if partitioning == "RESCALE":
        if sources >= targets:
            return [subtask * targets // sources]
        return [target for target in range(targets) if target * sources // targets == subtask]
    return list(range(targets))


def connected_sources(partitioning: str, subtask: int, sources: int, targets: int) -> list[int]:
    """Return the source subtasks that target `subtask` has a channel from."""
    return [
        source
        for source in range(sources)
        if subtask in connected_targets(partitioning, source, sources, targets)
    ]


class Router:
    """Collects the records of one edge per target and sends them as buffers.

    A buffer closes when it holds about `buffer_bytes`: the number of records for that is learned from the last buffer. It
    closes earlier if the window of the target is small. Records emitted at once are not split for that: all of them are
    in flight anyway.
    """

    operator_name = ""  # name of the sending operator

    def __init__(self, edge: ResultEdge, targets: list[int], buffer_bytes: int) -> None:
        self.edge = edge
        self.targets = targets
        self._writer: ResultWriter | None = None
        self._buffer_bytes = buffer_bytes
        self._limit = _FIRST_RECORDS
        self._pending: dict[int, Batch] = {}
        self.bytes_out = 0
        self._sent = 0  # records in buffers that were sent

    def bind(self, writer: ResultWriter) -> None:
        """Use this writer from now on."""
        self._writer = writer

    @property
    def waiting(self) -> bool:
        """Whether records wait for their buffers to fill up."""
        return bool(self._pending)

    @property
    def records_out(self) -> int:
        """Number of records routed so far, over all targets."""
        return self._sent + sum(map(len, self._pending.values()))

    def open(self, context: object) -> None:
        """Prepare the user's selectors."""

    def close(self) -> None:
        """Release the user's selectors."""

    def snapshot(self) -> StateValue:
        """Return the state that determines where records go: kept in this process, not in checkpoints."""
        return (self._limit,)

    def restore(self, snapshot: Any) -> None:
        """Restore what `memory` returned."""
        (self._limit,) = snapshot

    def route(self, batch: Batch) -> None:
        """Route records."""
        raise NotImplementedError

    def add(self, target: int, records: Batch) -> None:
        """Append records for one target; send full buffers."""
        pending = self._pending.get(target)
        if pending is None:
            self._pending[target] = records.copy()
            count = len(records)
        else:
            count = pending.extend(records)
        if count >= self._enough(target, records):
            self.flush(target)

    def scatter(self, batch: Batch, targets: Sequence[int]) -> None:
        """Append each record to its target; send full buffers."""
        pending = self._pending
        for target in batch.scatter(targets, pending):
            if len(pending[target]) >= self._enough(target, batch):
                self.flush(target)

    def flush(self, target: int) -> None:
        """Send the pending records of one target."""
        pending = self._pending.pop(target, None)
        if pending is None:
            return
        count = len(pending)
        if count < 2 * self._largest(pending):
            self._send_buffer(target, pending)
            return
        start = 0
        while start < count:  # an operator emitted many records at once
            end = start + self._largest(pending)
            self._send_buffer(target, pending.slice(start, end))
            start = end

    def _largest(self, records: Batch) -> int:
        """Return the maximum number of such records per buffer."""
        return self._limit * records.BUFFER_FACTOR

    def _enough(self, target: int, records: Batch) -> int:
        """Return the number of such records at which a buffer for a target is sent."""
        assert self._writer is not None
        return min(self._largest(records), self._writer.most_records(target))

    def _send_buffer(self, target: int, records: Batch) -> None:
        assert self._writer is not None
        count = len(records)
        self._sent += count
        try:
            size = self._writer.send(target, DATA, records)
        except NotPicklableError as error:
            raise self._not_sendable(records, error) from error
        if size:
            self.bytes_out += size
            self._limit = min(max(self._buffer_bytes * count // size, 16), _MAX_RECORDS)

    def _not_sendable(self, records: Batch, error: NotPicklableError) -> RecordError:
        """Find the first record that cannot be pickled; if there is none, it is a key."""
        culprit = next((each for each in _each(records) if not is_picklable(each)), None)
        what = "a key" if culprit is None else f"record {shorten(culprit)}"
        return RecordError(
            f"operator '{self.operator_name}' emitted a record that cannot be sent to another task",
            detail=f"{what} cannot be pickled: {error.message}",
            hint="emit plain data; create connections, locks and the like in open(), or where they are used",
        )


class SingleTargetRouter(Router):
    """Forward, global, and any edge with one target."""

    def route(self, batch: Batch) -> None:
        """Send all records to the one target."""
        self.add(self.targets[0], batch if batch.keys is None else batch.with_keys(None))


class RoundRobinRouter(Router):
    """Rebalance and rescale: each record goes to the next target.

    Senders start at different targets, as in Flink, so that few records are distributed, too.
    """

    def __init__(self, edge: ResultEdge, targets: list[int], buffer_bytes: int, first: int) -> None:
        super().__init__(edge, targets, buffer_bytes)
        self._next = first % len(targets)

    def snapshot(self) -> StateValue:
        """Return the next target."""
        return (self._limit, self._next)

    def restore(self, snapshot: Any) -> None:
        """Continue with the same target."""
        self._limit, self._next = snapshot

    def route(self, batch: Batch) -> None:
        """Distribute the records round robin."""
        batch = _without_keys(batch)
        count, records = len(self.targets), len(batch)
        for offset in range(min(count, records)):
            target = self.targets[(self._next + offset) % count]
            self.add(target, batch.slice(offset, None, count))
        self._next = (self._next + records) % count


class ShuffleRouter(Router):
    """Sends each record to a random target."""

    def __init__(self, edge: ResultEdge, targets: list[int], buffer_bytes: int) -> None:
        super().__init__(edge, targets, buffer_bytes)
        self._random = random.Random()  # noqa: S311 - for load distribution only

    def snapshot(self) -> StateValue:
        """Return a new seed."""
        return (self._limit, self._random.getrandbits(64))

    def restore(self, snapshot: Any) -> None:
        """Start with a seed."""
        self._limit, seed = snapshot
        self._random.seed(seed)

    def route(self, batch: Batch) -> None:
        """Scatter the records."""
        self.scatter(_without_keys(batch), self._random.choices(self.targets, k=len(batch)))


class BroadcastRouter(Router):
    """Sends each record to every target."""

    def route(self, batch: Batch) -> None:
        """Send all records to all targets."""
        batch = _without_keys(batch)
        writer, alone = self._writer, len(self.targets) == 1
        assert writer is not None
        for target in self.targets:
            # A waiting buffer must not change when a local consumer modifies its records.
            self.add(target, batch if alone or not writer.shares(target) else batch.isolated())


class HashRouter(Router):
    """Sends each record to the owner of its key's key group, together with the key."""

    def __init__(
        self, edge: ResultEdge, targets: list[int], buffer_bytes: int, selector: Any
    ) -> None:
        super().__init__(edge, targets, buffer_bytes)
        self._selector = selector
        self._key_of = method_of(selector, "get_key")
        self._routes = _Routes(edge.target_parallelism, edge.target_max_parallelism)

    def open(self, context: object) -> None:
        """Open the key selector."""
        open_function(self._selector, context)

    def close(self) -> None:
        """Close the key selector."""
        close_functions([self._selector])

    def route(self, batch: Batch) -> None:
        """Select keys and send each record to its owner."""
        routes_of = getattr(batch, "routes_of", None)
        if routes_of is not None:
            self._route_columns(batch, routes_of)
            return
        keys = batch.extract(self._key_of)
        if len(self.targets) == 1:
            if not _are_plain(keys):
                try:
                    _refuse_nan(keys)
                except TypeError:
                    keys = self._hashable(keys, batch)
                    _refuse_nan(keys)
            self.add(0, batch.with_keys(keys))
            return
        routes = self._routes
        if len(routes) > _ROUTES_KEPT:
            routes.clear()
        try:
            chosen = list(map(routes.__getitem__, keys))
        except TypeError:
            keys = self._hashable(keys, batch)
            chosen = list(map(routes.__getitem__, keys))
        self.scatter(batch.with_keys(keys), chosen)

    def _route_columns(self, batch: Batch, routes_of: Any) -> None:
        """Route a column batch as a whole; keys stay in the columns."""
        if len(self.targets) == 1:
            self.add(0, batch)
            return
        edge = self.edge
        targets = routes_of(self._selector, edge.target_parallelism, edge.target_max_parallelism)
        self.scatter(batch, targets)

    def _hashable(self, keys: list[Any], batch: Batch) -> list[Any]:
        """Return lists and the like in a hashable form; reject other values, naming the record."""
        try:
            return as_keys(keys)
        except ArgumentTypeError as error:
            refused = next(
                record for key, record in zip(keys, _each(batch), strict=True) if not _is_key(key)
            )
            raise RecordFailedError(error, refused) from None


def _is_key(key: object) -> bool:
    try:
        as_key(key)
    except TypeError:
        return False
    return True


class _Routes(dict[Any, int]):
    """Key -> target subtask, computed on first sight."""

    def __init__(self, parallelism: int, max_parallelism: int) -> None:
        super().__init__()
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism

    def __missing__(self, key: object) -> int:
        if holds_nan(key):  # NaN keys would be missing each time
            raise _nan_error(key)
        group = key_group_of(key, self._max_parallelism)
        target = self[key] = subtask_of(group, self._parallelism, self._max_parallelism)
        return target


_PLAIN = frozenset({int, str, bytes, bool, type(None)})
_SCALARS = _PLAIN | {float, Decimal, dt.date, dt.datetime}


def _are_plain(keys: list[Any]) -> bool:
    """Whether all keys are numbers, strings and the like, or tuples of these: 20 ns per record, 50 ns for pairs."""
    kinds = set(map(type, keys))
    if kinds == {tuple}:
        kinds = set(map(type, chain.from_iterable(keys)))
    return kinds <= _PLAIN


def _refuse_nan(keys: list[Any]) -> None:
    """Reject keys that are or contain NaN, each key once; TypeError if a key is not hashable."""
    if set(map(type, keys)) <= _SCALARS:
        keys = [key for key in keys if key != key]  # noqa: PLR0124 - NaN differs from itself
    for key in dict.fromkeys(keys):
        if holds_nan(key):
            raise _nan_error(key)


def _nan_error(key: object) -> ArgumentError:
    return ArgumentError(
        f"NaN is not allowed as a key: {key!r}",
        detail="NaN is not equal to itself, so the state of such a key would not be found again",
        hint="return None or a string instead in the key selector, or filter such records out",
    )


class CustomRouter(Router):
    """Sends each record to the target chosen by the user's partitioner."""

    def __init__(
        self, edge: ResultEdge, targets: list[int], buffer_bytes: int, custom: Any
    ) -> None:
        super().__init__(edge, targets, buffer_bytes)
        self._functions = [custom.partitioner, custom.key_selector]
        self._partition = method_of(custom.partitioner, "partition")
        self._key_of = method_of(custom.key_selector, "get_key")

    def open(self, context: object) -> None:
        """Open the user's functions."""
        for function in self._functions:
            open_function(function, context)

    def close(self) -> None:
        """Close the user's functions."""
        close_functions(self._functions)

    def _pick(self, value: object) -> object:
        return self._partition(self._key_of(value), len(self.targets))

    def route(self, batch: Batch) -> None:
        """Call the partitioner."""
        count = len(self.targets)
        chosen = batch.extract(self._pick)
        for target in chosen:
            if not isinstance(target, int) or not 0 <= target < count:
                raise ArgumentError(
                    f"the partitioner returned an invalid target {target!r}",
                    hint=f"return an integer from 0 to {count - 1}",
                )
        self.scatter(_without_keys(batch), chosen)


def _each(batch: Batch) -> list[Any]:
    """Return the records one by one, to find one of them for a message."""
    return batch.extract(lambda record: record)


def _without_keys(batch: Batch) -> Batch:
    return batch if batch.keys is None else batch.with_keys(None)


def create_router(
    edge: ResultEdge, partitioning: Any, subtask: int, sources: int, buffer_bytes: int
) -> Router:
    """Build the router of an outgoing edge for one sending subtask."""
    targets = connected_targets(edge.partitioning, subtask, sources, edge.target_parallelism)
    match edge.partitioning:
        case "HASH":
            return HashRouter(edge, targets, buffer_bytes, partitioning.key_selector)
        case "CUSTOM":
            return CustomRouter(edge, targets, buffer_bytes, partitioning)
        case "BROADCAST":
            return BroadcastRouter(edge, targets, buffer_bytes)
        case "SHUFFLE" if len(targets) > 1:
            return ShuffleRouter(edge, targets, buffer_bytes)
        case "REBALANCE" | "RESCALE" if len(targets) > 1:
            return RoundRobinRouter(edge, targets, buffer_bytes, subtask)
        case _:
            return SingleTargetRouter(edge, targets, buffer_bytes)
