"""Networks of several slots in one thread: a pump never waits, so they can take turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from penstock.graph.stage import NetworkSettings
from penstock.runtime.network.channels import (
    ChannelId,
    InputChannel,
    Inputs,
    Item,
    OutputChannel,
    Outputs,
)
from penstock.runtime.network.keys import make_keys
from penstock.runtime.network.transport import Network

HOST = "127.0.0.1"
PATIENCE_S = 20.0


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
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "it did not become so"
            if not self.pump(*which):
                time.sleep(0.0005)

    def settle(self, seconds: float = 0.2) -> None:
        """Let them work for a while: for what must not happen."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self.pump():
                time.sleep(0.0005)

    def take(self, receiver: InputChannel, count: int) -> list[Item]:
        """Take so many items as they arrive."""
        taken: list[Item] = []

        def all_there() -> bool:
            while receiver.items and len(taken) < count:
                taken.append(receiver.take())
            return len(taken) == count

        self.until(all_there)
        return taken

    def close(self) -> None:
        for network in self.networks:
            network.close()
