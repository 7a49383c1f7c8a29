"""How the slots of a stage find each other: through the driver, which knows who belongs to the attempt."""

from __future__ import annotations

import os
from typing import Any, Protocol

from penstock.errors import PenstockError
from penstock.runtime.task.stage_messages import Connect, SlotListening


class ReachesDriver(Protocol):
    """The part of a slot's network that is needed for it."""

    address: str

    def report(self, message: Any) -> None:
        """Tell the driver."""

    def commands(self) -> list[Any]:
        """Return what the driver has sent."""

    def pump(self) -> bool:
        """Take what has arrived."""

    def wait(self, seconds: float) -> None:
        """Wait until something has arrived."""


def find_peers(network: ReachesDriver, slot: int) -> tuple[str, ...]:
    """Tell the driver where this slot listens, wait for the others, and return the addresses of all, by slot."""
    network.report(SlotListening(slot, network.address, os.getpid()))
    while True:
        network.pump()
        for command in network.commands():
            if isinstance(command, Connect):
                return command.addresses
            raise PenstockError(
                f"slot {slot} was told to end before all slots of its stage were there"
            )
        network.wait(1.0)
