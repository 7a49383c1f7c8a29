"""A line between two slots that damages what it carries, or breaks: the receiving slot fails, and takes nothing that is wrong."""

from __future__ import annotations

import contextlib
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from penstock.graph.stage import NetworkSettings
from penstock.runtime.network import transport
from penstock.runtime.network.authentication import make_keys
from penstock.runtime.network.channels import ChannelId, Inputs, Outputs
from penstock.runtime.network.frames import TransportError
from penstock.runtime.network.messages import WATERMARK
from penstock.runtime.network.transport import Network
from tests.unit.runtime.network.slots import FOREVER_S, HOST, TIMEOUT_S


class Line:
    """Passes on what is sent to it, until it is told to damage or to break."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        self._target = (host, int(port))
        self._listening = socket.create_server((HOST, 0))
        self.address = f"tcp://{HOST}:{self._listening.getsockname()[1]}"
        self._damage = threading.Event()
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(self._target)
                self._ends += [near, far]
                threading.Thread(target=self._carry, args=(near, far, True), daemon=True).start()
                threading.Thread(target=self._carry, args=(far, near, False), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, forth: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if forth and self._damage.is_set():
                    self._damage.clear()
                    # The end of a message's content: ZeroMQ ignores one bit of the header before it.
                    data = data[:-1] + bytes([data[-1] ^ 1])
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def damage(self) -> None:
        """Turn one bit of what is sent next."""
        self._damage.set()

    @property
    def has_damaged(self) -> bool:
        """Whether it has done what `damage` asks for."""
        return not self._damage.is_set()

    def cut(self) -> None:
        """Break the connection; the next one is whole."""
        ends, self._ends = self._ends, []
        for each in ends:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Carry no more."""
        self._listening.close()
        self.cut()


class Pair:
    """Two slots, and a line from the first to the second."""

    def __init__(self) -> None:
        keys = make_keys()
        self.sending, self.receiving = (
            Network(slot, 2, keys, NetworkSettings(), HOST) for slot in range(2)
        )
        self.line = Line(self.receiving.address)
        self.sending.connect([self.sending.address, self.line.address])
        self.receiving.connect([self.sending.address, self.receiving.address])
        channel, self._inputs = ChannelId(1, 1, 0, 0), Inputs()
        self._output = self.sending.open_output(channel, 1, Outputs())
        self.receiving.open_input(channel, 0, self._inputs)
        self.sent = 0
        self.taken: list[int] = []

    def work(self, until: Callable[[], bool], *, send: bool = True) -> None:
        """Send numbers, and take what arrives."""
        deadline = time.monotonic() + TIMEOUT_S
        while not until():
            assert time.monotonic() < deadline, f"{len(self.taken)} of {self.sent} were taken"
            if send:
                self._output.send(WATERMARK, self.sent)
                self.sent += 1
            self.sending.pump()
            self.receiving.pump()
            while (channel := self._inputs.next()) is not None:
                self.taken.append(pickle.loads(channel.take().content))
                channel.offer()
            time.sleep(0.001)

    def close(self) -> None:
        self.sending.close()
        self.receiving.close()
        self.line.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    made.work(lambda: len(made.taken) > 10)
    yield made
    made.close()


def never() -> bool:
    return False


@pytest.mark.parametrize("send", [True, False], ids=["more is sent", "nothing more is sent"])
@pytest.mark.parametrize("what", ["damage", "cut"])
def test_slot_fails_on_a_corrupting_connection(
    pair: Pair, what: str, send: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_GRACE_S", 0.0)

    def work_on_a_bad_line() -> None:
        if what == "damage":
            pair.line.damage()
            pair.work(lambda: pair.line.has_damaged)  # the slot may notice it this early
        else:
            pair.line.cut()
        pair.work(never, send=send)

    with pytest.raises(
        TransportError, match=r"lost messages from slot 0|lost the connection from slot 0"
    ):
        work_on_a_bad_line()
    assert pair.taken == [*range(len(pair.taken))], "what was taken was right"


def test_lost_messages_are_detected_when_the_connection_recovers(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_GRACE_S", FOREVER_S)  # that it was interrupted is not a reason
    pair.line.damage()
    with pytest.raises(TransportError, match="lost messages from slot 0"):
        pair.work(never)
    assert pair.taken == [*range(len(pair.taken))], "what was taken was right"


def test_transparent_proxy_causes_no_errors(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_GRACE_S", 0.0)
    pair.work(lambda: pair.sent >= 1000)
    pair.work(lambda: len(pair.taken) >= pair.sent, send=False)
    assert pair.taken == [*range(pair.sent)]
