"""The network of a slot: channels to the other slots of its stage, and the connection to the driver.

It has no thread besides ZeroMQ's own. The slot's event loop calls `pump` as often as it can, and `wait` when it is idle. A
pump takes everything that has arrived: credits bound it, so nothing can be stuck in a connection behind something that is not
read.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import zmq

from penstock.graph.stage import NetworkSettings, StageKeys
from penstock.pickling.portable_pickles import dumps
from penstock.runtime.network import frames, sockets
from penstock.runtime.network.authentication import ZapAuthenticator, guard, identify
from penstock.runtime.network.channels import (
    ChannelId,
    InputChannel,
    Inputs,
    LocalLink,
    OutputChannel,
    Outputs,
)
from penstock.runtime.network.credits import windows
from penstock.runtime.network.debloating import FIRST_RECORDS, UNLIMITED
from penstock.runtime.network.frames import TransportError
from penstock.runtime.network.peers import Peer, RemoteInput, RemoteOutput
from penstock.runtime.network.wakeup import Wakeup

# A slot that ends closes its connections, perhaps before others know that they should end, too.
_GRACE_S: Final = 2.0
_LAST_REPORTS_MS: Final = 2000  # how long a closed network tries to send the last reports


class Network:
    """The connections of one slot. Only `wake` and `report` may be called from other threads."""

    def __init__(
        self, slot: int, slots: int, keys: StageKeys, settings: NetworkSettings, host: str
    ) -> None:
        self._slot = slot
        self._settings = settings
        self._keys = keys
        self._context: zmq.Context[Any] = zmq.Context()
        self._authenticator = ZapAuthenticator(self._context)
        self._authenticator.admit(keys)
        self._between_slots = sockets.between_slots(settings.heartbeat)
        #: All other slots send here.
        self._inbox = sockets.new_socket(self._context, zmq.PULL, heartbeat=self._between_slots)
        guard(self._inbox, keys)
        self._connections = sockets.Connections(self._inbox)
        self.address = sockets.bind(self._inbox, host)
        self._wakeup = Wakeup()
        #: What `pump` looks at, and what ends a `wait`: the same, and `wake`.
        self._sockets = zmq.Poller()
        self._sockets_and_wakeup = zmq.Poller()
        self._sockets_and_wakeup.register(self._wakeup.fd, zmq.POLLIN)
        for each in (self._inbox, self._authenticator.socket, self._connections.monitor):
            self._register(each)
        #: Files that operators watch. They end a wait, as the sockets do.
        self._files: dict[int, Callable[[], None]] = {}
        self._peers = {other: Peer(slot, other) for other in range(slots) if other != slot}
        #: The expected number of the next message of each slot: a gap fails the slot.
        self._numbers = dict.fromkeys(self._peers, 0)
        #: Channels within the slot, from when the first of their ends was opened.
        self._local: dict[ChannelId, LocalLink] = {}
        #: The ends of channels to and from other slots, by the key that their frames carry.
        self._outputs: dict[bytes, RemoteOutput] = {}
        self._inputs: dict[bytes, RemoteInput] = {}
        #: Of channels that the other side opened first: at most one item each, and credits.
        self._early: dict[bytes, list[tuple[int, frames.FrameEntry]]] = {}
        #: Inputs whose senders have not been granted a window yet.
        self._unopened: list[RemoteInput] = []
        #: None until `connect_driver`.
        self._driver: zmq.Socket[bytes] | None = None
        self._driver_connections: sockets.Connections | None = None
        #: Received, and not taken by the loop yet.
        self._commands: list[Any] = []
        #: Pickled, and not sent yet. Any thread adds to it; only `_thread` uses the socket.
        self._reports: deque[bytes] = deque()
        self._thread = threading.get_ident()
        #: Slots by the connection that their messages come on.
        self._heard_of: dict[int, int] = {}
        #: Slots whose connection was closed, and when: after a grace period they are lost, unless this slot ends before.
        self._gone: dict[int, float] = {}
        self._closed = False

    # Connections.

    def connect(self, addresses: Sequence[str]) -> None:
        """Connect to the other slots; `addresses` has one entry per slot of the stage, including this one."""
        for slot, peer in self._peers.items():
            socket = sockets.new_socket(self._context, zmq.PUSH, heartbeat=self._between_slots)
            identify(socket, self._keys)
            sockets.connect(socket, addresses[slot])
            peer.connected(socket)

    def connect_driver(self, address: str, identity: int) -> None:
        """Connect to the driver, which knows this slot by its number."""
        socket = sockets.new_socket(
            self._context,
            zmq.DEALER,
            heartbeat=self._settings.heartbeat,
            linger_ms=_LAST_REPORTS_MS,
        )
        socket.setsockopt(zmq.ROUTING_ID, b"%d" % identity)
        identify(socket, self._keys)
        self._driver_connections = sockets.Connections(socket)
        sockets.connect(socket, address)
        self._driver = socket
        self._register(socket)
        self._register(self._driver_connections.monitor)

    def open_output(self, channel: ChannelId, target_slot: int, outputs: Outputs) -> OutputChannel:
        """Return the sending end of a channel."""
        if target_slot == self._slot:
            link = self._local_link(channel)
            link.attach_outputs(outputs)
            return link
        first = FIRST_RECORDS if self._settings.debloat.enabled else UNLIMITED
        output = RemoteOutput(channel, self._peers[target_slot], outputs, first)
        key = frames.channel_key(channel)
        self._outputs[key] = output
        self._catch_up(key)
        return output

    def open_input(self, channel: ChannelId, source_slot: int, inputs: Inputs) -> InputChannel:
        """Return the receiving end of a channel, and add it to the inputs of its subtask."""
        if source_slot == self._slot:
            link = self._local_link(channel)
            link.receiver.attach(inputs)
            return link.receiver
        source = RemoteInput(channel, self._peers[source_slot], inputs)
        key = frames.channel_key(channel)
        self._inputs[key] = source
        self._unopened.append(source)
        self._catch_up(key)
        return source.receiver

    # Event loop.

    def pump(self) -> bool:
        """Receive everything that has arrived and send what is allowed; return whether anything arrived. Never blocks."""
        if self._unopened:
            self._announce_windows()
        ready = self._sockets.poll(0)  # 2 us for all of them
        for socket, _ in ready:
            if socket is self._inbox:
                self._receive()
                while sockets.has_message(socket):
                    self._receive()
            elif isinstance(socket, int):
                self._files.get(socket, _ignore)()
            else:
                self._receive_from(socket)
        if self._gone:
            self._check_gone()
        self._flush()
        return bool(ready)

    def wait(self, seconds: float) -> None:
        """Send pending data, then wait for data for `pump`, a `wake` or the timeout."""
        self._flush()
        for ready, _ in self._sockets_and_wakeup.poll(sockets.milliseconds(seconds)):
            if ready == self._wakeup.fd:
                self._wakeup.clear()

    def watch(self, file: int, call: Callable[[], None] | None) -> None:
        """Call a function in every `pump` while a file is readable, which also ends a `wait`; None removes it."""
        if self._files.pop(file, None) is not None:
            self._sockets.unregister(file)
            self._sockets_and_wakeup.unregister(file)
        if call is not None:
            self._files[file] = call
            self._register(file)

    def wake(self) -> None:
        """End a `wait`, or the next one. Thread-safe."""
        self._wakeup.wake()

    # Driver.

    def commands(self) -> list[Any]:
        """Return the commands of the driver that `pump` has received, in order."""
        commands, self._commands = self._commands, []
        return commands

    def report(self, message: Any) -> None:
        """Send a report to the driver. Thread-safe; reports of one thread keep their order."""
        self._reports.append(dumps(message))
        if threading.get_ident() == self._thread:
            self._send_reports()
        else:
            self.wake()

    def close(self) -> None:
        """Close all connections. The last reports are still sent to the driver; data for other slots is dropped."""
        if self._closed:
            return
        self._closed = True
        self._send_reports()
        self._connections.close()
        if self._driver_connections is not None:
            self._driver_connections.close()
        self._context.destroy()
        self._wakeup.close()

    # Implementation.

    def _register(self, socket: zmq.Socket[bytes] | int) -> None:
        self._sockets.register(socket, zmq.POLLIN)
        self._sockets_and_wakeup.register(socket, zmq.POLLIN)

    def _local_link(self, channel: ChannelId) -> LocalLink:
        link = self._local.get(channel)
        if link is None:
            link = self._local[channel] = LocalLink(channel, Outputs(), Inputs())
        return link

    def _announce_windows(self) -> None:
        settings = self._settings
        gates = Counter(source.gate for source in self._inputs.values())
        window = dict(
            zip(
                gates,
                windows(
                    gates.values(),
                    settings.channel_bytes,
                    settings.gate_bytes,
                    settings.slot_bytes,
                ),
                strict=True,
            )
        )
        for source in self._inputs.values():
            source.resize(window[source.gate])
        for source in self._unopened:
            source.open()
        self._unopened.clear()

    def _catch_up(self, key: bytes) -> None:
        for slot, entry in self._early.pop(key, ()):
            self._hand_over(slot, entry)

    def _receive(self) -> None:
        if len(self._heard_of) == len(self._peers):
            self._read(self._inbox.recv_multipart(zmq.NOBLOCK))
        else:  # the first message of a slot identifies its connection
            parts = self._inbox.recv_multipart(zmq.NOBLOCK, copy=False)
            slot = self._read([part.bytes for part in parts])
            self._heard_of[int(parts[0].get(zmq.SRCFD))] = slot

    def _read(self, message: list[bytes]) -> int:
        slot, number = frames.read_origin(message[0])
        expected = self._numbers.get(slot)
        if number != expected:
            raise TransportError(
                f"lost messages from slot {slot}",
                detail=f"received message {number}, expected {expected}",
            )
        self._numbers[slot] = number + 1
        for entry in frames.read_entries(message):
            self._hand_over(slot, entry)
        return slot

    def _hand_over(self, slot: int, entry: frames.FrameEntry) -> None:
        ends = self._outputs if entry.kind == frames.CREDIT else self._inputs
        end: RemoteOutput | RemoteInput | None = ends.get(entry.channel)
        if end is None:
            self._early.setdefault(entry.channel, []).append((slot, entry))
        elif end.slot == slot:
            end.arrived(entry)
        else:
            raise TransportError(
                f"received data from slot {slot} for a channel of slot {end.slot}",
                detail=str(frames.channel_of(entry.channel)),
            )

    def _receive_from(self, socket: object) -> None:
        if self._driver is not None and socket is self._driver:
            self._commands += _all_of(self._driver)
        elif socket is self._authenticator.socket:
            self._authenticator.answer()
        elif socket is self._connections.monitor:
            for connection in self._connections.closed():
                if connection in self._heard_of:
                    self._gone.setdefault(self._heard_of[connection], time.monotonic())
        elif self._driver is not None and not (
            self._commands or sockets.has_message(self._driver)
        ):  # read the driver's last commands before its end: the slot may be about to leave
            self._check_driver()

    def _check_driver(self) -> None:
        if self._driver_connections is not None and self._driver_connections.closed():
            if self._driver is not None:
                self._driver.setsockopt(zmq.LINGER, 0)
            raise TransportError("lost the connection to the driver")

    def _check_gone(self) -> None:
        slot, since = next(iter(self._gone.items()))
        if time.monotonic() - since > _GRACE_S:
            raise TransportError(f"lost the connection from slot {slot}")

    def _flush(self) -> None:
        for peer in self._peers.values():
            peer.flush()
        if self._reports:
            self._send_reports()

    def _send_reports(self) -> None:
        while self._driver is not None and self._reports:
            self._driver.send(self._reports.popleft(), zmq.NOBLOCK)


def _ignore() -> None:
    """Placeholder for a file that is no longer watched."""


def _all_of(socket: zmq.Socket[bytes]) -> list[Any]:
    messages: list[Any] = []
    while sockets.has_message(socket):
        messages.append(pickle.loads(socket.recv(zmq.NOBLOCK)))
    return messages
