"""The network between two slots against bare ZeroMQ sockets, in one run: throughput, and the time of an idle hop.

    python -m benchmarks.network [SECONDS]

Two processes of this machine. Records are (int, int, str) tuples with timestamps, 1000 to a buffer; both sides encode and decode them. A
hop is half of the way there and back of a buffer with one record, when nothing else is under way.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any
from unittest import mock

import zmq

from penstock.graph.stage import NetworkSettings, StageKeys
from penstock.runtime.network import transport
from penstock.runtime.network.authentication import guard, identify, make_keys
from penstock.runtime.network.buffers import decode
from penstock.runtime.network.channels import ChannelId, Inputs, Outputs
from penstock.runtime.network.messages import DATA
from penstock.runtime.records import RowBatch

RECORDS = 1000
HOPS = 3000
HOST = "127.0.0.1"


def buffer(count: int = RECORDS) -> RowBatch:
    """Return records as a job has them."""
    values = [(each, each * 7919 % 10007, f"user-{each % 100}") for each in range(count)]
    return RowBatch(values, list(range(count)))


class Bare:
    """A PULL and a PUSH, and nothing else."""

    def __init__(self, slot: int, keys: StageKeys, secure: bool) -> None:
        self._keys = keys if secure else None
        self._context = zmq.Context()
        self._inbox = self._context.socket(zmq.PULL)
        if self._keys:
            guard(self._inbox, self._keys)
        self._inbox.set_hwm(64)
        self._inbox.bind(f"tcp://{HOST}:0")
        self.address = self._inbox.last_endpoint.decode()

    def connect(self, addresses: list[str], slot: int) -> None:
        """Connect to the other one."""
        self._outbox = self._context.socket(zmq.PUSH)
        if self._keys:
            identify(self._outbox, self._keys)
        self._outbox.set_hwm(64)
        self._outbox.connect(addresses[1 - slot])

    def send(self, batch: RowBatch) -> None:
        """Send, and wait for room."""
        self._outbox.send(batch.encode())

    def receive(self, deadline: float) -> Any:
        """Wait for records."""
        while not self._inbox.poll(1000):
            if time.monotonic() > deadline:
                return None
        return decode(self._inbox.recv())

    def close(self) -> None:
        """Let go of the sockets."""
        self._context.destroy(0)


class Slot:
    """The network of a slot, used as the event loop uses it."""

    def __init__(self, slot: int, keys: StageKeys, secure: bool) -> None:
        nothing: Callable[..., None] = lambda *_: None  # noqa: E731
        self._patches = (
            []
            if secure
            else [
                mock.patch.object(transport, "guard", nothing),
                mock.patch.object(transport, "identify", nothing),
            ]
        )
        for patch in self._patches:
            patch.start()
        self._network = transport.Network(slot, 2, keys, NetworkSettings(), HOST)
        self.address = self._network.address
        self._outputs, self._inputs = Outputs(), Inputs()

    def connect(self, addresses: list[str], slot: int) -> None:
        """Connect to the other one, by a channel in each direction."""
        network, other = self._network, 1 - slot
        network.connect(addresses)
        self._sender = network.open_output(ChannelId(1, other, 0, slot), other, self._outputs)
        network.open_input(ChannelId(1, slot, 0, other), other, self._inputs)

    def send(self, batch: RowBatch) -> None:
        """Send when there is room."""
        network = self._network
        network.pump()
        while not self._outputs.has_room:
            network.wait(1)
            network.pump()
        self._sender.send(DATA, batch)
        network.pump()

    def receive(self, deadline: float) -> Any:
        """Take the next records."""
        while (channel := self._inputs.next()) is None:
            if time.monotonic() > deadline:
                return None
            if not self._network.pump():
                self._network.wait(1)
        item = channel.take()
        channel.offer()
        return decode(item.content)

    def close(self) -> None:
        """Let go of the sockets."""
        self._network.close()
        for patch in self._patches:
            patch.stop()


def echo(pipe: Connection, kind: Any, keys: StageKeys, secure: bool, seconds: float) -> None:
    """The other process: counts records for a while, then sends back what it gets."""
    end = kind(1, keys, secure)
    pipe.send(end.address)
    end.connect(pipe.recv(), 1)
    started, count, deadline = None, 0, time.monotonic() + seconds + 20
    while (batch := end.receive(deadline)) is not None and len(batch) > 1:
        started = started or time.perf_counter()
        count += len(batch)
    pipe.send((count, time.perf_counter() - (started or 0)))
    for _ in range(HOPS):
        batch = end.receive(deadline)
        end.send(batch)
    pipe.recv()
    end.close()


def measure(kind: Any, secure: bool, seconds: float) -> tuple[float, list[float]]:
    """Return records per second, and the times of hops in microseconds, sorted."""
    keys = make_keys()
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=echo, args=(there, kind, keys, secure, seconds)
    )
    process.start()
    end = kind(0, keys, secure)
    addresses = [end.address, here.recv()]
    here.send(addresses)
    end.connect(addresses, 0)
    batch, stop = buffer(), time.perf_counter() + seconds
    while time.perf_counter() < stop:
        end.send(batch)
    single, hops = buffer(1), []
    end.send(single)
    count, taken = here.recv()
    for _ in range(HOPS):
        started = time.perf_counter()
        end.send(single)
        end.receive(time.monotonic() + 20)
        hops.append((time.perf_counter() - started) / 2 * 1e6)
    here.send("end")
    end.close()
    process.join()
    return count / taken, sorted(hops)


def main() -> None:
    """Measure all, and print a table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    print(f"{'':28} {'records/s':>12} {'hop p50':>9} {'p99':>9}")
    for name, kind, secure in (
        ("bare sockets", Bare, False),
        ("bare sockets, CURVE", Bare, True),
        ("network of a slot, no keys", Slot, False),
        ("network of a slot", Slot, True),
    ):
        rate, hops = measure(kind, secure, seconds)
        p50, p99 = hops[len(hops) // 2], hops[len(hops) * 99 // 100]
        print(f"{name:28} {rate:12,.0f} {p50:6.0f} us {p99:6.0f} us", flush=True)


if __name__ == "__main__":
    main()
