"""Channels to and from other slots: their two ends, and the connection to each slot."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Any

import zmq

from penstock.pickling.portable_pickles import dumps
from penstock.runtime.network import frames
from penstock.runtime.network.channels import (
    BufferOrEvent,
    ChannelId,
    InputChannel,
    Inputs,
    Outputs,
)
from penstock.runtime.network.credits import ITEM_OVERHEAD, ReceiveWindow, SendWindow
from penstock.runtime.network.debloating import UNLIMITED, buffer_records
from penstock.runtime.network.messages import DATA

# Data for one slot is sent together at the next `pump`; a message of this size is sent at once, so that the other side
# can start
# while a subtask is still emitting.
FULL_MESSAGE = 65_536


class Peer:
    """The connection to one other slot: collects outgoing data, and sends it as one message."""

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
        """Queue records or a control message."""
        self._headers.append(frames.item_header(key, kind, content, flags, records))
        self._contents.append(content)
        self._bytes += len(content)
        if self._bytes >= FULL_MESSAGE:
            self.flush()

    def add_credit(self, key: bytes, limit: int, records: int, window: int) -> None:
        """Queue a credit for the sender of a channel: its limits in bytes and records, and the window in records."""
        self._headers.append(frames.credit_header(key, limit, records, window))

    def connected(self, socket: zmq.Socket[bytes]) -> None:
        """Use this socket, and send a first message at once: it identifies the connection to the other side."""
        self._socket = socket
        self._send(socket)

    def flush(self) -> None:
        """Send the collected data."""
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
    """The sending end of a channel to another slot: data beyond the credit is queued here, serialized."""

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
        self._queue: deque[tuple[BufferOrEvent, Any]] = deque()  # with the original message
        self._full = False
        self.window = window  # until the receiver announces another one
        self.most_records = buffer_records(window)

    def send(self, kind: int, content: Any) -> int:
        """Encode and send, or queue."""
        payload = _encoded(kind, content)
        size = len(payload)
        records = len(content) if kind == DATA else 0
        if self._queue or not self._is_open:
            item = BufferOrEvent(kind, payload, size, records)
            self._queue.append((item, None if kind == DATA else content))
        else:
            self._transmit(kind, payload, records=records)
        self._check()
        return size

    def overtake(self, kind: int, content: object) -> list[BufferOrEvent]:
        """Send a control message ahead of everything queued at either end; return the records queued here, in order."""
        self._transmit(kind, _encoded(kind, content), frames.OVERTAKES)
        self._check()
        return [item for item, _ in self._queue if item.kind == DATA]

    def expedite(self, kind: int, content: object) -> list[BufferOrEvent]:
        """Let a control message that is queued here overtake; return the records before it."""
        overtaken: list[BufferOrEvent] = []
        for position, (item, message) in enumerate(self._queue):
            if item.kind == kind and message == content:
                del self._queue[position]
                self._transmit(kind, item.content, frames.OVERTAKES)
                self._check()
                return overtaken
            if item.kind == DATA:
                overtaken.append(item)
        return []

    def holds(self, kind: int, content: object) -> bool:
        """Whether a control message is queued here."""
        return any(item.kind == kind and message == content for item, message in self._queue)

    def arrived(self, entry: frames.FrameEntry) -> None:
        """Handle a credit of the receiver."""
        self._bytes.allow(entry.limit)
        self._records.allow(entry.records)
        self.window = entry.window
        self.most_records = buffer_records(entry.window)
        while self._queue and self._is_open:
            item, _ = self._queue.popleft()
            self._transmit(item.kind, item.content, records=item.records)
        self._check()

    def usage(self) -> float:
        """Return the used fraction of the window (a lower bound)."""
        return max(self._bytes.usage, self._records.usage)

    def queued(self) -> int:
        """Return the number of items waiting for credit."""
        return len(self._queue)

    @property
    def slot(self) -> int:
        """The target slot."""
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
    """The receiving end of a channel from another slot: it grants credit to the sender."""

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
        """The sending slot."""
        return self._peer.slot

    @property
    def gate(self) -> tuple[int, int, int]:
        """The input gate of the subtask that it belongs to."""
        return self.receiver.id[:3]

    def resize(self, window: int) -> None:
        """Change the window in bytes. It is announced with the next credit."""
        self._bytes.window = window

    def fit(self, records: int) -> None:
        """Change the window in records, and announce it."""
        self._records.window = records
        if self._is_opened:
            self._announce()

    def open(self) -> None:
        """Announce the windows to the sender."""
        self._is_opened = True
        self._announce()

    def taken(self, item: BufferOrEvent) -> None:
        """Grant credit in bytes to the sender, from time to time."""
        # Otherwise the sender has not sent it, or has the credit for all of it.
        if item.size >= 0 and self._bytes.take(item.size + ITEM_OVERHEAD):
            self._announce()

    def processed(self, records: int) -> None:
        """Grant credit in records to the sender, from time to time."""
        if self._records.take(records):
            self._announce()

    def _announce(self) -> None:
        self._peer.add_credit(
            self._key, self._bytes.announce(), self._records.announce(), self._records.window
        )

    def usage_of(self, items: Collection[BufferOrEvent]) -> float:
        """Return the fraction of the window that these items use."""
        used = sum(max(item.size, 0) + ITEM_OVERHEAD for item in items)
        records = sum(item.records for item in items)
        return min(1.0, max(used / max(self._bytes.window, 1), records / self._records.window))

    def arrived(self, entry: frames.FrameEntry) -> None:
        """Pass an item to the receiver."""
        item = BufferOrEvent(entry.kind, entry.content, len(entry.content), entry.records)
        if entry.overtakes:
            self.receiver.put_first(item)
        else:
            self.receiver.put(item)


def _encoded(kind: int, content: Any) -> bytes:
    payload: bytes = content.encode() if kind == DATA else dumps(content)
    return payload
