"""Networks of several slots in one thread: a pump never waits, so they can take turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import zmq
from zmq.utils.monitor import parse_monitor_message

from penstock.graph.stage import NetworkSettings
from penstock.runtime.network.authentication import make_keys
from penstock.runtime.network.channels import (
    BufferOrEvent,
    ChannelId,
    InputChannel,
    Inputs,
    OutputChannel,
    Outputs,
)
from penstock.runtime.network.transport import Network

HOST = "127.0.0.1"
TIMEOUT_S = 120.0  # before a test fails instead of hanging
FOREVER_S = 10_000.0  # longer than any test may take


class Slots:
    """Connected networks, with channels of their own making."""

    def __init__(self, count: int = 2, settings: NetworkSettings | None = None) -> None:
        self.keys = make_keys()
        self.settings = settings or NetworkSettings()
        self.networks = [
            Network(slot, count, self.keys, self.settings, HOST) for slot in range(count)
        ]
        for network in self.networks:
            network.connect(self.addresses)
        self.outputs = [Outputs() for _ in range(count)]
        self.inputs = [Inputs() for _ in range(count)]

    @property
    def addresses(self) -> list[str]:
        return [network.address for network in self.networks]

    def channel(
        self, source: int = 0, target: int = 1, gate: int = 0
    ) -> tuple[OutputChannel, InputChannel]:
        """Open a channel between subtasks that are as many as the slots, at both ends."""
        channel = ChannelId(1, target, gate, source)
        return (
            self.networks[source].open_output(channel, target, self.outputs[source]),
            self.networks[target].open_input(channel, source, self.inputs[target]),
        )

    def pump(self, *which: int) -> bool:
        """Let each do what it can, once."""
        chosen: Sequence[Network] = [self.networks[each] for each in which] or self.networks
        return sum(network.pump() for network in chosen) > 0

    def until(self, condition: Callable[[], object], *which: int) -> None:
        """Let them work until something is so."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, "it did not become so"
            if not self.pump(*which):
                time.sleep(0.0005)

    def rest(self) -> None:
        """Let them work until nothing is under way between them: only another call or another machine can change anything then."""
        self.until(self._nothing_is_under_way)

    def _nothing_is_under_way(self) -> bool:
        if any(network._unopened for network in self.networks):
            return False
        return all(
            not peer._headers and peer._number == self.networks[peer.slot]._numbers[sender]
            for sender, network in enumerate(self.networks)
            for peer in network._peers.values()
        )

    def take(self, receiver: InputChannel, count: int) -> list[BufferOrEvent]:
        """Take so many items as they arrive."""
        taken: list[BufferOrEvent] = []

        def all_there() -> bool:
            while receiver.items and len(taken) < count:
                taken.append(receiver.take())
            return len(taken) == count

        self.until(all_there)
        return taken

    def close(self) -> None:
        for network in self.networks:
            network.close()


_ENDS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_DISCONNECTED
)


class Handshakes:
    """What happens to the attempts of a socket to connect. It is made before the socket is connected."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._monitor = socket.get_monitor_socket(_ENDS)
        self.accepted = 0
        self.refused = 0

    def look(self) -> bool:
        """Take note of what has happened; return whether the first attempt has ended."""
        while self._monitor.poll(0):
            event = parse_monitor_message(self._monitor.recv_multipart())["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.accepted += 1
            else:
                self.refused += 1
        return self.accepted + self.refused > 0
