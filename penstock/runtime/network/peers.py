"""Channels to and from other slots: their two ends, and the connection that carries what is to go to one slot."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Any

import zmq

from penstock.common.pickling import dumps
from penstock.runtime.network import frames
from penstock.runtime.network.channels import (
    ChannelId,
    InputChannel,
    Inputs,
    Item,
    Outputs,
)
from penstock.runtime.network.credits import ITEM_OVERHEAD, ReceiveWindow, SendWindow
from penstock.runtime.network.debloating import UNLIMITED, buffer_records
from penstock.runtime.network.messages import DATA

# What is to go to one slot is sent together at the next `pump`; a message of this size is sent at once, so that the other side can
# begin while a subtask is still emitting.
FULL_MESSAGE = 65_536


class Peer:
    """The way to one other slot: collects what is to go there, and sends it as one message."""

    __slots__ = ("_bytes", "_contents", "_headers", "_number", "_slot", "_socket", "slot")

    def __init__(self, own_slot: int, slot: int) -> None:
        self.slot = slot
        self._socket: zmq.Socket[bytes] | None = None  # until it is connected
        self._slot = own_slot
        self._number = 0
        self._headers: list[bytes] = []
        self._contents: list[bytes] = []
        self._bytes = 0

    def add_item(
        self, key: bytes, kind: int, content: bytes, flags: int = 0, records: int = 0
    ) -> None:
        """Send records or a control message."""
        self._headers.append(frames.item_header(key, kind, content, flags, records))
        self._contents.append(content)
        self._bytes += len(content)
        if self._bytes >= FULL_MESSAGE:
            self.flush()

    def add_credit(self, key: bytes, limit: int, records: int, window: int) -> None:
        """Tell the sender of a channel how many bytes and records it may have sent, and the window in records."""
        self._headers.append(frames.credit_header(key, limit, records, window))

    def connected(self, socket: zmq.Socket[bytes]) -> None:
        """Send through this socket, a first message at once: by it the other side knows the connection."""
        self._socket = socket
        self._send(socket)

    def flush(self) -> None:
        """Send what has been collected."""
        if self._headers and self._socket is not None:
            self._send(self._socket)

    def _send(self, socket: zmq.Socket[bytes]) -> None:
        message = frames.message(self._slot, self._number, self._headers, self._contents)
        socket.send_multipart(message, zmq.NOBLOCK)
        self._number += 1
        self._headers.clear()
        self._contents.clear()
        self._bytes = 0


class RemoteOutput:
    """The sending end of a channel to another slot: what the receiver has no room for waits here, encoded."""

    __slots__ = (
        "_bytes",
        "_full",
        "_key",
        "_outputs",
        "_peer",
        "_queue",
        "_records",
        "id",
        "most_records",
        "window",
    )

    def __init__(
        self,
        channel: ChannelId,
        peer: Peer,
        outputs: Outputs,
        window: int = UNLIMITED,
    ) -> None:
        self.id = channel
        self._key = frames.channel_key(channel)
        self._peer = peer
        self._outputs = outputs
        self._bytes = SendWindow()
        self._records = SendWindow(window)
        self._queue: deque[tuple[Item, Any]] = deque()  # with the message that was encoded
        self._full = False
        self.window = window  # until the receiver tells another one
        self.most_records = buffer_records(window)

    def send(self, kind: int, content: Any) -> int:
        """Encode and send, or queue."""
        payload = _encoded(kind, content)
        size = len(payload)
        records = len(content) if kind == DATA else 0
        if self._queue or not self._is_open:
            item = Item(kind, payload, size, records)
            self._queue.append((item, None if kind == DATA else content))
        else:
            self._transmit(kind, payload, records=records)
        self._check()
        return size

    def overtake(self, kind: int, content: Any) -> list[Item]:
        """Send a control message before all that waits at either end; return the records that wait here, in order."""
        self._transmit(kind, _encoded(kind, content), frames.OVERTAKES)
        self._check()
        return [item for item, _ in self._queue if item.kind == DATA]

    def hasten(self, kind: int, content: Any) -> list[Item]:
        """Let a control message overtake that waits here; return the records before it."""
        overtaken: list[Item] = []
        for position, (item, message) in enumerate(self._queue):
            if item.kind == kind and message == content:
                del self._queue[position]
                self._transmit(kind, item.content, frames.OVERTAKES)
                self._check()
                return overtaken
            if item.kind == DATA:
                overtaken.append(item)
        return []

    def holds(self, kind: int, content: Any) -> bool:
        """Whether a control message waits here."""
        return any(item.kind == kind and message == content for item, message in self._queue)

    def arrived(self, entry: frames.Entry) -> None:
        """The receiver has told how much may be sent."""
        self._bytes.allow(entry.limit)
        self._records.allow(entry.records)
        self.window = entry.window
        self.most_records = buffer_records(entry.window)
        while self._queue and self._is_open:
            item, _ = self._queue.popleft()
            self._transmit(item.kind, item.content, records=item.records)
        self._check()

    def usage(self) -> float:
        """Return which part of the window is certainly used."""
        return max(self._bytes.usage, self._records.usage)

    def queued(self) -> int:
        """Return how many items wait for room."""
        return len(self._queue)

    @property
    def slot(self) -> int:
        """The slot that it leads to."""
        return self._peer.slot

    @property
    def _is_open(self) -> bool:
        return self._bytes.is_open and self._records.is_open

    def _transmit(self, kind: int, payload: bytes, flags: int = 0, records: int = 0) -> None:
        self._bytes.send(len(payload) + ITEM_OVERHEAD)
        self._records.send(records)
        self._peer.add_item(self._key, kind, payload, flags, records)

    def _check(self) -> None:
        full = not self._is_open
        if full != self._full:
            self._full = full
            (self._outputs.filled if full else self._outputs.emptied)()


class RemoteInput:
    """What carries a channel from another slot: it tells the sender how much it may send."""

    __slots__ = ("_bytes", "_is_opened", "_key", "_peer", "_records", "receiver")

    def __init__(self, channel: ChannelId, peer: Peer, inputs: Inputs) -> None:
        self._key = frames.channel_key(channel)
        self._peer = peer
        self._bytes = ReceiveWindow(0)
        self._records = ReceiveWindow(UNLIMITED)
        self._is_opened = False
        self.receiver = InputChannel(channel, inputs, self)
        inputs.add(self.receiver)

    @property
    def slot(self) -> int:
        """The slot that it comes from."""
        return self._peer.slot

    @property
    def gate(self) -> tuple[int, int, int]:
        """Which input of which subtask it belongs to."""
        return self.receiver.id[:3]

    def resize(self, window: int) -> None:
        """Change the window in bytes. The sender learns it with the next credit."""
        self._bytes.window = window

    def fit(self, records: int) -> None:
        """Change the window in records."""
        self._records.window = records
        if self._is_opened:
            self._tell()

    def open(self) -> None:
        """Tell the sender the windows."""
        self._is_opened = True
        self._tell()

    def taken(self, item: Item) -> None:
        """Give room to the sender, from time to time."""
        # Else the sender has not sent it, or was given room for all of it.
        if item.size >= 0 and self._bytes.take(item.size + ITEM_OVERHEAD):
            self._tell()

    def processed(self, records: int) -> None:
        """Give room to the sender, from time to time."""
        if self._records.take(records):
            self._tell()

    def _tell(self) -> None:
        self._peer.add_credit(
            self._key, self._bytes.tell(), self._records.tell(), self._records.window
        )

    def usage_of(self, items: Collection[Item]) -> float:
        """Return which part of the window these items take."""
        used = sum(max(item.size, 0) + ITEM_OVERHEAD for item in items)
        records = sum(item.records for item in items)
        return min(1.0, max(used / max(self._bytes.window, 1), records / self._records.window))

    def arrived(self, entry: frames.Entry) -> None:
        """Hand over to the receiver."""
        item = Item(entry.kind, entry.content, len(entry.content), entry.records)
        if entry.overtakes:
            self.receiver.put_first(item)
        else:
            self.receiver.put(item)


def _encoded(kind: int, content: Any) -> bytes:
    payload: bytes = content.encode() if kind == DATA else dumps(content)
    return payload
