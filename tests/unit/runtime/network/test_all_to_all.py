"""Slots that all send to each other through real sockets, each in its own thread or process, with windows of a few items."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from queue import SimpleQueue
from typing import Any

import pytest

from penstock.graph.stage import NetworkSettings, StageKeys
from penstock.runtime.network.authentication import make_keys
from penstock.runtime.network.channels import ChannelId, Inputs, Outputs
from penstock.runtime.network.messages import WATERMARK
from penstock.runtime.network.transport import Network
from tests.unit.runtime.network.slots import HOST

SLOTS = 4
COUNT = 300
TINY = NetworkSettings(channel_bytes=300, gate_bytes=0)


def run(slot: int, keys: StageKeys, addresses: Any, reported: Any, results: Any) -> None:
    """Send numbers to all, pass on what arrives to one of all, and tell what arrives then; until told to end."""
    network = Network(slot, SLOTS, keys, TINY, HOST)
    addresses.put((slot, network.address))
    network.connect(reported.get())
    source, passing = Outputs(), Outputs()
    first, second = Inputs(), Inputs()
    numbers = [network.open_output(ChannelId(1, to, 0, slot), to, source) for to in range(SLOTS)]
    passed = [network.open_output(ChannelId(2, to, 0, slot), to, passing) for to in range(SLOTS)]
    for sender in range(SLOTS):
        network.open_input(ChannelId(1, slot, 0, sender), sender, first)
        network.open_input(ChannelId(2, slot, 0, sender), sender, second)
    sent = 0
    while reported.empty():
        worked = network.pump()
        if sent < COUNT and source.has_room:
            worked = True
            for each in numbers:
                each.send(WATERMARK, sent)
            sent += 1
        if passing.has_room and (taken := take(first)) is not None:
            worked = True
            sender, number = taken
            passed[number % SLOTS].send(WATERMARK, (sender, number))
        if (taken := take(second)) is not None:
            worked = True
            results.put((slot, *taken))
        if not worked:
            network.wait(0.05)
    network.close()


def take(inputs: Inputs) -> tuple[int, Any] | None:
    """Take the next item, with the subtask that sent it."""
    channel = inputs.next()
    if channel is None:
        return None
    content = channel.take().content
    channel.offer()
    return channel.id.source, pickle.loads(content) if type(content) is bytes else content


class Threads:
    """Slots as threads of this process."""

    queue = staticmethod(SimpleQueue)

    @staticmethod
    def start(*args: Any) -> Any:
        thread = threading.Thread(target=run, args=args)
        thread.start()
        return thread


class Processes:
    """Slots as processes."""

    context = multiprocessing.get_context("spawn")
    queue = staticmethod(context.Queue)

    @classmethod
    def start(cls, *args: Any) -> Any:
        process = cls.context.Process(target=run, args=args, daemon=True)
        process.start()
        return process


@pytest.mark.parametrize("kind", [Threads, Processes])
def test_all_arrives_once_and_in_order(kind: Any) -> None:
    keys, addresses, results = make_keys(), kind.queue(), kind.queue()
    tells = [kind.queue() for _ in range(SLOTS)]
    started = [kind.start(slot, keys, addresses, tells[slot], results) for slot in range(SLOTS)]
    known = dict(addresses.get(timeout=60) for _ in range(SLOTS))
    for tell in tells:
        tell.put([known[slot] for slot in range(SLOTS)])
    got: dict[tuple[int, int], list[Any]] = {}
    for _ in range(SLOTS * SLOTS * COUNT):
        slot, through, content = results.get(timeout=60)
        got.setdefault((slot, through), []).append(content)
    for tell in tells:
        tell.put("end")
    for each in started:
        each.join(120)
    for (slot, through), contents in got.items():
        for origin in range(SLOTS):
            found = [number for source, number in contents if source == origin]
            assert found == [*range(slot, COUNT, SLOTS)], (origin, through, slot)
