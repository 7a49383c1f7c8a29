"""Channels of subtasks that stay: a queue at the receiving end, a bound on what is under way, and who may go on.

A channel carries what one subtask sends over one edge to one other subtask, in order. Its two ends are an `OutputChannel` and an
`InputChannel`; between them is a `LocalLink` if both subtasks live in the same slot, a connection of the slot's network otherwise.

Nothing in here ever waits. A sender may always send: what the channel has no room for is queued, and closes the inputs of
the sender's subtask (`Outputs.has_room`) until it is gone. A receiver takes what has arrived, and each item that it takes gives room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from penstock.runtime.network.debloating import UNLIMITED, buffer_records
from penstock.runtime.network.messages import BARRIER, DATA
from penstock.runtime.records import Batch

# Sizes of items that give no room to the sender:
RESTORED: Final = -1  # it was in flight in this channel when the checkpoint was taken
MOVED: Final = -2  # it was in flight in a channel of another parallelism
PART: Final = -3  # it is the rest of one that was taken
_NOT_SENT: Final = (RESTORED, MOVED)


class ChannelId(NamedTuple):
    """Where a channel leads, and from which subtask of the vertex at the other end."""

    vertex: int  # the number of the receiving vertex
    subtask: int  # the receiving subtask
    gate: int
    source: int  # the sending subtask


class Item(NamedTuple):
    """One thing on its way: records or a control message.

    `content` is a Batch or a message as it was sent, or the bytes that a network has made of it. `size` is what it counts in bytes,
    `records` how many there are, if that is known.
    """

    kind: int
    content: Any
    size: int
    records: int = 0


class Outputs:
    """All output channels of one subtask: whether what it emits has somewhere to go."""

    __slots__ = ("_full",)

    def __init__(self) -> None:
        self._full = 0

    @property
    def has_room(self) -> bool:
        """Whether no channel is full: only then may the subtask take input."""
        return not self._full

    def filled(self) -> None:
        """Take note that a channel has no room any more."""
        self._full += 1

    def emptied(self) -> None:
        """Take note that a channel that was full has room again."""
        self._full -= 1


class OutputChannel(Protocol):
    """The sending end of a channel."""

    id: ChannelId
    window: int  # how many records the receiver lets be in flight
    most_records: int  # it wants no more in a buffer

    def send(self, kind: int, content: Any) -> int:
        """Send a Batch (kind DATA) or a control message after all that was sent before; return its size in bytes, 0 if unknown."""

    def overtake(self, kind: int, content: Any) -> list[Item]:
        """Send a control message before all that is queued here; return the DATA items that it overtook, in order.

        They are still sent, after it.
        """

    def hasten(self, kind: int, content: Any) -> list[Item]:
        """Let a control message that was sent overtake, if it is still queued here; return what `overtake` would."""

    def holds(self, kind: int, content: Any) -> bool:
        """Whether a control message that was sent is still queued here."""

    def usage(self) -> float:
        """Return which part of the room is certainly used, from 0 to 1."""

    def queued(self) -> int:
        """Return how many items wait here."""


class InputChannel:
    """The receiving end of a channel: what has arrived and was not taken yet."""

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

    def __init__(self, channel: ChannelId, inputs: Inputs, link: Link) -> None:
        self.id = channel
        self.items: deque[Item] = deque()
        self.moved: deque[Item] = deque()  # taken before any of the items
        self.blocked = False  # aligned: it has brought its barrier and waits for the others
        self._inputs = inputs
        self._link = link
        self._queued = False
        # How many items each of the messages at the head has overtaken, and how many the last one that was taken.
        self._first: deque[int] = deque()
        self._overtaken = 0

    def attach(self, inputs: Inputs) -> None:
        """Let it belong to the inputs of a subtask."""
        self._inputs = inputs
        self._queued = False
        inputs.add(self)
        self.offer()
        inputs.hurry += [self] * len(self._first)
        if inputs.announces:
            inputs.announced += [item for item in self.items if item.kind == BARRIER]

    def put(self, item: Item) -> None:
        """Take what the sender sent."""
        self.items.append(item)
        self.offer()
        if item.kind == BARRIER and self._inputs.announces:
            self._inputs.announced.append(item)

    def restore(self, payloads: Sequence[bytes]) -> None:
        """Take records that were in flight in this channel when the checkpoint was taken: they come before all that its sender sends."""
        self.items.extendleft(Item(DATA, payload, RESTORED) for payload in reversed(payloads))
        self.offer()

    def restore_moved(self, payloads: Sequence[bytes]) -> None:
        """Take records that were in flight before the parallelism changed: they come before all that any sender sends.

        The sender of this channel need not be the one that goes on with their keys.
        """
        self.moved.extend(Item(DATA, payload, MOVED) for payload in payloads)
        self._inputs.moved += len(payloads)
        if self._queued:
            self._queued = False
            self._inputs.line.remove(self)
        self.offer()

    def put_back(self, records: Batch, taken: Item) -> None:
        """Take back a part of the records that were taken last: nothing has come or gone since."""
        if taken.size == MOVED:
            self.moved.appendleft(Item(DATA, records, MOVED))
            self._inputs.moved += 1
        else:
            size = RESTORED if taken.size == RESTORED else PART
            self.items.appendleft(Item(DATA, records, size, len(records)))

    def put_first(self, item: Item) -> None:
        """Take a message that overtakes all that waits here, but for others that did so before."""
        first = len(self._first)
        self._first.append(len(self.items) - first)
        self.items.insert(first, item)
        self._inputs.hurry.append(self)
        self.offer()

    def hasten(self, is_it: Callable[[Item], bool]) -> bool:
        """Let the first such message overtake all that waits before it; return whether there is one."""
        first = len(self._first)
        for position, item in enumerate(self.items):
            if is_it(item):
                if position >= first:
                    del self.items[position]
                    self._first.append(position - first)
                    self.items.insert(first, item)
                    self._inputs.hurry.append(self)
                return True
        return False

    def take(self) -> Item:
        """Return the next item, and give room to the sender."""
        if self.moved:
            self._inputs.moved -= 1
            return self.moved.popleft()
        item = self.items.popleft()
        self._overtaken = self._first.popleft() if self._first else 0
        self._link.taken(item)
        return item

    def processed(self, item: Item, records: int) -> None:
        """Give room to the sender for records of an item that were processed, unless they were restored."""
        if item.size not in _NOT_SENT:
            self._link.processed(records)

    @property
    def is_urgent(self) -> bool:
        """Whether the next item has overtaken others. None overtakes moved records."""
        return bool(self._first) and not self.moved

    def overtaken(self) -> list[Item]:
        """Return the records that the message which was taken last has overtaken, in order; what arrived after it does not count."""
        first = len(self._first)
        return [
            item for item in islice(self.items, first, first + self._overtaken) if item.kind == DATA
        ]

    def usage(self) -> float:
        """Return which part of the room that the sender has is used by what waits here, from 0 to 1."""
        return self._link.usage_of(self.items)

    def fit(self, records: int) -> None:
        """Let no more records be in flight."""
        self._link.fit(records)

    def block(self) -> None:
        """Let it wait, with all that it brings."""
        self.blocked = True

    def unblock(self) -> None:
        """Let it be read again."""
        self.blocked = False
        self.offer()

    def offer(self) -> None:
        """Stand in line to be read, if there is something to read and it does not stand there already; at its head with moved records."""
        if (self.items or self.moved) and not self.blocked and not self._queued:
            self._queued = True
            line = self._inputs.line
            (line.appendleft if self.moved else line.append)(self)

    def left_line(self) -> None:
        """Take note that it was taken out of the line."""
        self._queued = False


class Link(Protocol):
    """What carries a channel: it learns what the receiver has taken."""

    def taken(self, item: Item) -> None:
        """The receiver has taken an item."""

    def processed(self, records: int) -> None:
        """The receiver has processed records."""

    def usage_of(self, items: Collection[Item]) -> float:
        """Return which part of the room the items take that wait at the receiver."""

    def fit(self, records: int) -> None:
        """Let no more records be in flight."""


class Inputs:
    """All input channels of one subtask: those with something to read stand in line, so that each gets its turn."""

    __slots__ = ("announced", "announces", "bytes_in", "channels", "hurry", "line", "moved")

    def __init__(self) -> None:
        self.channels: dict[tuple[int, int], InputChannel] = {}  # by gate and sending subtask
        self.line: deque[InputChannel] = deque()
        self.bytes_in = 0  # what was taken so far
        # How many moved items wait. No barrier is taken before them: a checkpoint that holds moved and new records of one key, in two
        # channels, would not know which come first.
        self.moved = 0
        self.hurry: list[InputChannel] = []  # for each message that overtakes, where it is
        # If somebody wants to know: barriers that were put at the end of a queue, perhaps behind many records.
        self.announces = False
        self.announced: list[Item] = []

    def add(self, channel: InputChannel) -> None:
        """Add a channel."""
        self.channels[channel.id.gate, channel.id.source] = channel

    def next(self) -> InputChannel | None:
        """Return a channel that has an item to take, the next in line; None if there is none.

        Whoever has taken from it calls `InputChannel.offer` to put it in line again.
        """
        while self.line:
            channel = self.line.popleft()
            channel.left_line()
            if (channel.items or channel.moved) and not channel.blocked:
                return channel
        return None

    def urgent(self) -> Iterator[InputChannel]:
        """Iterate over channels whose next item has overtaken others, while there are any; whether they are blocked does not matter."""
        while self.hurry:
            channel = self.hurry.pop(0)
            if channel.is_urgent:
                yield channel

    def unblock_all(self) -> None:
        """Let all channels be read again."""
        for channel in self.channels.values():
            if channel.blocked:
                channel.unblock()


class LocalLink:
    """A channel between two subtasks of one slot: what is sent is what arrives, as it is."""

    def __init__(
        self, channel: ChannelId, outputs: Outputs, inputs: Inputs, items: int = 8
    ) -> None:
        self.id = channel
        self._outputs = outputs
        self._limit = items
        self._full = False
        self._records = 0  # in flight
        self.window = self.most_records = UNLIMITED
        self.receiver = InputChannel(channel, inputs, self)
        inputs.add(self.receiver)

    def attach_outputs(self, outputs: Outputs) -> None:
        """Let it belong to the outputs of a subtask."""
        self._outputs = outputs
        if self._full:
            outputs.filled()

    def send(self, kind: int, content: Any) -> int:
        """Hand over."""
        records = len(content) if kind == DATA else 0
        self._records += records
        self.receiver.put(Item(kind, content, 0, records))
        self._check()
        return 0

    def overtake(self, kind: int, content: Any) -> list[Item]:
        """Hand over before all that waits: none of it counts as overtaken here, the receiver has it already."""
        self.receiver.put_first(Item(kind, content, 0))
        return []

    def hasten(self, kind: int, content: Any) -> list[Item]:
        """Nothing waits at this end: the receiver has it, and knows when it is to overtake."""
        return []

    def holds(self, kind: int, content: Any) -> bool:
        """Nothing waits at this end."""
        return False

    def usage(self) -> float:
        """Return which part of the room is used: all that was sent waits at the receiver."""
        return self.usage_of(self.receiver.items)

    def usage_of(self, items: Collection[Item]) -> float:
        """Return which part of the room so many items take."""
        records = sum(item.records for item in items)
        return min(1.0, max(len(items) / self._limit, records / self.window))

    def queued(self) -> int:
        """Nothing waits at this end."""
        return 0

    def taken(self, item: Item) -> None:
        """There is room again, perhaps."""
        self._check()

    def processed(self, records: int) -> None:
        """There is room again, perhaps."""
        self._records -= records
        self._check()

    def fit(self, records: int) -> None:
        """Let no more records wait; nothing has a size in bytes here."""
        self.window = records
        self.most_records = buffer_records(records)
        self._check()

    def _check(self) -> None:
        full = len(self.receiver.items) >= self._limit or self._records >= self.window
        if full != self._full:
            self._full = full
            (self._outputs.filled if full else self._outputs.emptied)()
