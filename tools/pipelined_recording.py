"""Records what the slots of a pipelined job send to each other and to the driver, up to its first checkpoint."""

# ruff: noqa: SLF001 - which slot a network belongs to is private

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.graph.task_id import TaskId
from penstock.runtime.network import messages
from penstock.runtime.network.buffers import decode
from penstock.runtime.network.channels import ChannelId
from penstock.runtime.network.transport import Network
from penstock.runtime.network.writers import ChannelWriter
from penstock.runtime.task.pipelined import slot_messages as slots

CHECKPOINT = 1
_KINDS = {
    messages.DATA: "DATA",
    messages.WATERMARK: "WATERMARK",
    messages.BARRIER: "BARRIER",
}
# The order of the page. Slots run concurrently: within a step, messages of different slots come in any order.
_STEPS = (
    slots.SlotListening,
    slots.Connect,
    slots.SlotRunning,
    slots.TriggerBarrier,
    slots.AcknowledgeCheckpoint,
    slots.ConfirmCheckpoint,
)


@dataclass(slots=True)
class Recording:
    """What was sent: the items of each channel, and the messages between the driver and each slot."""

    items: dict[ChannelId, list[tuple[int, Any]]] = field(default_factory=lambda: defaultdict(list))
    local: set[ChannelId] = field(default_factory=set)
    messages: list[tuple[int, bool, Any]] = field(default_factory=list)  # slot, to the driver, what
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sent(self, channel: ChannelId, kind: int, content: Any, *, local: bool) -> None:
        """Note an item of a channel."""
        with self._lock:
            self.items[channel].append((kind, content))
            if local:
                self.local.add(channel)

    def exchanged(self, slot: int, message: Any, *, to_driver: bool) -> None:
        """Note a message between the driver and a slot."""
        with self._lock:
            self.messages.append((slot, to_driver, message))

    @property
    def confirmed(self) -> bool:
        """Whether all slots know that the first checkpoint is complete."""
        with self._lock:
            exchanged = {
                slot for slot, _, it in self.messages if isinstance(it, slots.ConfirmCheckpoint)
            }
            return bool(exchanged) and exchanged == {slot for slot, _, _ in self.messages}

    @property
    def acks(self) -> list[messages.TaskAck]:
        """The ACKs of the first checkpoint."""
        found = [it for _, _, it in self.messages if isinstance(it, slots.AcknowledgeCheckpoint)]
        return [each.ack for each in found if each.checkpoint == CHECKPOINT]

    @property
    def has_all_records(self) -> bool:
        """Whether every channel carried records and a watermark before the first barrier."""
        wanted = set(_KINDS)
        channels = self.before_checkpoint().values()
        return all(wanted <= {kind for kind, _ in items} for items in channels)

    def before_checkpoint(self) -> dict[ChannelId, list[tuple[int, Any]]]:
        """Return the items of each channel up to the barrier of the first checkpoint, which is the last of them."""
        found = {}
        for channel, items in self.items.items():
            kinds = [kind for kind, _ in items]
            found[channel] = items[: kinds.index(messages.BARRIER) + 1]
        return dict(sorted(found.items()))


@contextmanager
def recording() -> Iterator[Recording]:
    """Record all pipelined slots of this process."""
    found = Recording()
    send = ChannelWriter.send
    commands, report = Network.commands, Network.report

    def recorded_send(writer: ChannelWriter, target: int, kind: int, content: Any) -> int:
        channel = writer.channels[target].id
        found.sent(channel, kind, content, local=writer.shares(target))
        return send(writer, target, kind, content)

    def recorded_commands(network: Network) -> list[Any]:
        given = commands(network)
        for command in given:
            found.exchanged(network._slot, command, to_driver=False)
        return given

    def recorded_report(network: Network, message: Any) -> None:
        found.exchanged(network._slot, message, to_driver=True)
        report(network, message)

    _patch(recorded_send, recorded_commands, recorded_report)
    try:
        yield found
    finally:
        _patch(send, commands, report)


def _patch(send: Any, commands: Any, report: Any) -> None:
    ChannelWriter.send = send  # type: ignore[method-assign]
    Network.commands = commands  # type: ignore[method-assign]
    Network.report = report  # type: ignore[method-assign]


def describe_channels(found: Recording, shorten: Callable[[str], str]) -> list[str]:
    """Return what each channel carried up to the barrier, as lines: all records, the last watermark, the barrier."""
    lines = ["source    window                 content"]
    for channel, items in found.before_checkpoint().items():
        ends = f"clicks[{channel.source}] window[{channel.subtask}]"
        way = "queue " if channel in found.local else "ZeroMQ"
        for kind, content in _summed(items):
            lines.append(f"{ends} {way} {_KINDS[kind]:<9} {shorten(content)}")
    return lines


def _summed(items: list[tuple[int, Any]]) -> Iterator[tuple[int, str]]:
    """Yield all records of a channel as one batch, and its last watermark: their number depends on the machine's speed."""
    batches = [_decoded(content) for kind, content in items if kind == messages.DATA]
    columns = [
        [value for batch in batches for value in getattr(batch, part)]
        for part in ("values", "timestamps", "keys")
    ]
    yield messages.DATA, ", ".join(map(repr, columns))
    for kind in messages.WATERMARK, messages.BARRIER:
        yield kind, repr([_decoded(content) for each, content in items if each == kind][-1])


def _decoded(content: Any) -> Any:
    return decode(content) if isinstance(content, bytes) else content


def describe_messages(found: Recording, name: Callable[[TaskId], str]) -> list[str]:
    """Return the messages between the driver and the slots up to the first checkpoint, as lines."""
    lines = []
    for step in _STEPS:
        these = [each for each in found.messages if isinstance(each[2], step)]
        these = [each for each in these if getattr(each[2], "checkpoint", CHECKPOINT) == CHECKPOINT]
        texts = {(slot, _message(message, name)): to for slot, to, message in these}
        for (slot, text), to_driver in sorted(texts.items()):
            arrow = f"slot {slot} -> driver" if to_driver else f"driver -> slot {slot}"
            lines.append(f"{arrow:<18} {text}")
    return lines


def _message(message: Any, name: Callable[[TaskId], str]) -> str:
    kind = type(message).__name__
    match message:
        case slots.SlotListening():
            return f"{kind}(slot={message.slot}, address=<address>, ...)"
        case slots.Connect():
            return f"{kind}(addresses=<{len(message.addresses)} addresses>)"
        case slots.SlotRunning():
            return f"{kind}(slot={message.slot}, ...)"
        case slots.TriggerBarrier():
            return f"{kind}(checkpoint={message.checkpoint}, ...)"
        case slots.AcknowledgeCheckpoint():
            return f"{kind}(checkpoint={message.checkpoint}, ack=TaskAck(task={name(message.ack.task)}, ...))"
    return f"{kind}(checkpoint={message.checkpoint})"
