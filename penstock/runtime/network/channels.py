"""Channels of pipelined subtasks: a queue at the receiver, and credit-based flow control.

A channel carries the output of one subtask over one edge to one other subtask, in order. Its ends are an `OutputChannel`
and an
`InputChannel`; between them is a `LocalLink` if both subtasks are in the same slot, otherwise a connection of the slot's
network.

Nothing in here blocks. A sender may always send: items beyond the channel's capacity are queued, and stop the inputs of the
sender's subtask (`Outputs.has_room`) until they are sent. Each item that the receiver takes frees capacity.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from penstock.runtime.network.debloating import UNLIMITED, buffer_records
from penstock.runtime.network.messages import BARRIER, DATA
from penstock.runtime.records import Batch

# Sizes of items that free no capacity in bytes at the sender:
RESTORED: Final = -1  # was in flight in this channel when the checkpoint was taken
MOVED: Final = -2  # was in flight in a channel before a rescale
PART: Final = -3  # the rest of an item that was taken
_NOT_SENT: Final = (RESTORED, MOVED)


class ChannelId(NamedTuple):
    """The receiving end of a channel, and its sending subtask."""

    vertex: int  # index of the receiving vertex
    subtask: int  # the receiving subtask
    gate: int
    source: int  # the sending subtask


class BufferOrEvent(NamedTuple):
    """A queued item: records or a control message.

    `content` is a Batch or a message as sent, or its serialized bytes. `size` and `records` are used for flow control;
    `records` is 0 for control messages and restored items.
    """

    kind: int
    content: Any
    size: int
    records: int = 0


class Outputs:
    """All output channels of one subtask, and whether they have capacity."""

    __slots__ = ("_full",)

    def __init__(self) -> None:
        self._full = 0

    @property
    def has_room(self) -> bool:
        """Whether no channel is full: only then may the subtask take input."""
        return not self._full

    def filled(self) -> None:
        """Record that a channel became full."""
        self._full += 1

    def emptied(self) -> None:
        """Record that a full channel has capacity again."""
        self._full -= 1


class OutputChannel(Protocol):
    """The sending end of a channel."""

    id: ChannelId
    window: int  # maximum number of in-flight records
    most_records: int  # maximum number of records per buffer that the receiver wants

    def send(self, kind: int, content: object) -> int:
        """Send a Batch (kind DATA) or a control message after everything sent before; return its size in bytes, 0 if unknown."""

    def overtake(self, kind: int, content: object) -> list[BufferOrEvent]:
        """Send a control message ahead of everything queued here; return the overtaken DATA items, in order.

        They are still sent after it.
        """

    def expedite(self, kind: int, content: object) -> list[BufferOrEvent]:
        """Let a control message that is still queued here overtake; return what `overtake` would."""

    def holds(self, kind: int, content: object) -> bool:
        """Whether a control message is still queued here."""

    def usage(self) -> float:
        """Return the used fraction of the capacity, from 0 to 1 (a lower bound)."""

    def queued(self) -> int:
        """Return the number of items queued here."""


class InputChannel:
    """The receiving end of a channel: items that have arrived and were not taken yet."""

    __slots__ = (
        "_first",
        "_inputs",
        "_link",
        "_overtaken",
        "_queued",
        "blocked",
        "id",
        "items",
        "moved",
    )

    def __init__(self, channel: ChannelId, inputs: Inputs, link: ChannelLink) -> None:
        self.id = channel
        self.items: deque[BufferOrEvent] = deque()
        self.moved: deque[BufferOrEvent] = deque()  # taken before all other items
        self.blocked = (
            False  # barrier alignment: it has delivered its barrier and waits for the others
        )
        self._inputs = inputs
        self._link = link
        self._queued = False
        # How many items each of the messages at the head has overtaken, and how many the last one taken has.
        self._first: deque[int] = deque()
        self._overtaken = 0

    def attach(self, inputs: Inputs) -> None:
        """Attach the channel to the inputs of a subtask."""
        self._inputs = inputs
        self._queued = False
        inputs.add(self)
        self.offer()
        inputs.priority_events += [self] * len(self._first)
        if inputs.announces:
            inputs.announced += [item for item in self.items if item.kind == BARRIER]

    def put(self, item: BufferOrEvent) -> None:
        """Append an item from the sender."""
        self.items.append(item)
        self.offer()
        if item.kind == BARRIER and self._inputs.announces:
            self._inputs.announced.append(item)

    def restore(self, payloads: Sequence[bytes]) -> None:
        """Add in-flight records of a checkpoint of this channel: they come before everything that its sender sends."""
        self.items.extendleft(
            BufferOrEvent(DATA, payload, RESTORED) for payload in reversed(payloads)
        )
        self.offer()

    def restore_moved(self, payloads: Sequence[bytes]) -> None:
        """Add in-flight records from before a rescale: they come before everything that any sender sends.

        The sender of this channel need not be the one that now sends their keys.
        """
        self.moved.extend(BufferOrEvent(DATA, payload, MOVED) for payload in payloads)
        self._inputs.moved += len(payloads)
        if self._queued:
            self._queued = False
            self._inputs.line.remove(self)
        self.offer()

    def put_back(self, records: Batch, taken: BufferOrEvent) -> None:
        """Put back a part of the records that were taken last; the channel must be unchanged since."""
        if taken.size == MOVED:
            self.moved.appendleft(BufferOrEvent(DATA, records, MOVED))
            self._inputs.moved += 1
        else:
            size = RESTORED if taken.size == RESTORED else PART
            self.items.appendleft(BufferOrEvent(DATA, records, size, len(records)))

    def put_first(self, item: BufferOrEvent) -> None:
        """Add a message that overtakes everything queued here, except earlier overtaking messages."""
        first = len(self._first)
        self._first.append(len(self.items) - first)
        self.items.insert(first, item)
        self._inputs.priority_events.append(self)
        self.offer()

    def expedite(self, is_it: Callable[[BufferOrEvent], bool]) -> bool:
        """Let the first matching message overtake all items before it; return whether there is one."""
        first = len(self._first)
        for position, item in enumerate(self.items):
            if is_it(item):
                if position >= first:
                    del self.items[position]
                    self._first.append(position - first)
                    self.items.insert(first, item)
                    self._inputs.priority_events.append(self)
                return True
        return False

    def take(self) -> BufferOrEvent:
        """Return the next item, and free its capacity at the sender."""
        if self.moved:
            self._inputs.moved -= 1
            return self.moved.popleft()
        item = self.items.popleft()
        self._overtaken = self._first.popleft() if self._first else 0
        self._link.taken(item)
        return item

    def processed(self, item: BufferOrEvent, records: int) -> None:
        """Free the capacity of processed records of an item at the sender; restored ones have none."""
        if item.size not in _NOT_SENT:
            self._link.processed(records)

    @property
    def is_urgent(self) -> bool:
        """Whether the next item has overtaken others. None overtakes moved records."""
        return bool(self._first) and not self.moved

    def overtaken(self) -> list[BufferOrEvent]:
        """Return the records that the last taken message has overtaken, in order, without later arrivals."""
        first = len(self._first)
        return [
            item for item in islice(self.items, first, first + self._overtaken) if item.kind == DATA
        ]

    def usage(self) -> float:
        """Return the fraction of the sender's capacity used by items queued here, from 0 to 1."""
        return self._link.usage_of(self.items)

    def fit(self, records: int) -> None:
        """Limit the in-flight records."""
        self._link.fit(records)

    def block(self) -> None:
        """Stop reading from this channel."""
        self.blocked = True

    def unblock(self) -> None:
        """Resume reading from this channel."""
        self.blocked = False
        self.offer()

    def offer(self) -> None:
        """Enqueue the channel for reading, if it has items and is not queued already; at the head if it has moved records."""
        if (self.items or self.moved) and not self.blocked and not self._queued:
            self._queued = True
            line = self._inputs.line
            (line.appendleft if self.moved else line.append)(self)

    def left_line(self) -> None:
        """Record that it was removed from the queue of readable channels."""
        self._queued = False


class ChannelLink(Protocol):
    """The transport of a channel: it is notified of taken items."""

    def taken(self, item: BufferOrEvent) -> None:
        """The receiver has taken an item."""

    def processed(self, records: int) -> None:
        """The receiver has processed records."""

    def usage_of(self, items: Collection[BufferOrEvent]) -> float:
        """Return the fraction of the capacity used by the items queued at the receiver."""

    def fit(self, records: int) -> None:
        """Limit the in-flight records."""


class Inputs:
    """All input channels of one subtask: readable ones are served round robin."""

    __slots__ = (
        "announced",
        "announces",
        "bytes_in",
        "channels",
        "line",
        "moved",
        "priority_events",
    )

    def __init__(self) -> None:
        self.channels: dict[tuple[int, int], InputChannel] = {}  # by gate and sending subtask
        self.line: deque[InputChannel] = deque()
        self.bytes_in = 0  # bytes taken so far
        # Number of queued moved items. No barrier is taken before them: a checkpoint with moved and new records of one
        # key, in two channels, would lose their order.
        self.moved = 0
        self.priority_events: list[InputChannel] = []  # the channel of each overtaking message
        # If set: receives barriers that were queued, perhaps behind many records.
        self.announces = False
        self.announced: list[BufferOrEvent] = []

    def add(self, channel: InputChannel) -> None:
        """Add a channel."""
        self.channels[channel.id.gate, channel.id.source] = channel

    def next(self) -> InputChannel | None:
        """Return the next readable channel; None if there is none.

        The caller calls `InputChannel.offer` afterwards to enqueue it again.
        """
        while self.line:
            channel = self.line.popleft()
            channel.left_line()
            if (channel.items or channel.moved) and not channel.blocked:
                return channel
        return None

    def urgent(self) -> Iterator[InputChannel]:
        """Iterate over channels whose next item has overtaken others, blocked or not."""
        while self.priority_events:
            channel = self.priority_events.pop(0)
            if channel.is_urgent:
                yield channel

    def unblock_all(self) -> None:
        """Resume reading from all channels."""
        for channel in self.channels.values():
            if channel.blocked:
                channel.unblock()


class LocalLink:
    """A channel between two subtasks of one slot: items are passed on as objects."""

    def __init__(
        self, channel: ChannelId, outputs: Outputs, inputs: Inputs, items: int = 8
    ) -> None:
        self.id = channel
        self._outputs = outputs
        self._limit = items
        self._full = False
        self._records = 0  # in-flight records, including those being processed
        self.window = self.most_records = UNLIMITED
        self.receiver = InputChannel(channel, inputs, self)
        inputs.add(self.receiver)

    def attach_outputs(self, outputs: Outputs) -> None:
        """Attach the channel to the outputs of a subtask."""
        self._outputs = outputs
        if self._full:
            outputs.filled()

    def send(self, kind: int, content: Any) -> int:
        """Pass an item to the receiver."""
        records = len(content) if kind == DATA else 0
        self._records += records
        self.receiver.put(BufferOrEvent(kind, content, 0, records))
        self._check()
        return 0

    def overtake(self, kind: int, content: object) -> list[BufferOrEvent]:
        """Pass a message ahead of everything queued at the receiver: nothing is overtaken at this end."""
        self.receiver.put_first(BufferOrEvent(kind, content, 0))
        return []

    def expedite(self, kind: int, content: object) -> list[BufferOrEvent]:
        """Return nothing: the receiver has the message already and decides when it overtakes."""
        return []

    def holds(self, kind: int, content: object) -> bool:
        """Return False: nothing is queued at this end."""
        return False

    def usage(self) -> float:
        """Return the used fraction of the capacity: all items are queued at the receiver."""
        return self.usage_of(self.receiver.items)

    def usage_of(self, items: Collection[BufferOrEvent]) -> float:
        """Return the fraction of the capacity that these items use."""
        records = sum(item.records for item in items)
        return min(1.0, max(len(items) / self._limit, records / self.window))

    def queued(self) -> int:
        """Return 0: nothing is queued at this end."""
        return 0

    def taken(self, item: BufferOrEvent) -> None:
        """Check whether there is capacity again."""
        self._check()

    def processed(self, records: int) -> None:
        """Check whether there is capacity again."""
        self._records -= records
        self._check()

    def fit(self, records: int) -> None:
        """Limit the in-flight records; local items have no size in bytes."""
        self.window = records
        self.most_records = buffer_records(records)
        self._check()

    def _check(self) -> None:
        full = len(self.receiver.items) >= self._limit or self._records >= self.window
        if full != self._full:
            self._full = full
            (self._outputs.filled if full else self._outputs.emptied)()
