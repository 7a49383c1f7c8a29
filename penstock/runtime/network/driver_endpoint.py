"""The driver's end of the connections to the slots of its stages."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import zmq

from penstock.graph.stage import HeartbeatSettings, StageKeys
from penstock.pickling.portable_pickles import dumps
from penstock.runtime.network import inspection, sockets
from penstock.runtime.network.authentication import ZapAuthenticator, guard
from penstock.runtime.network.wakeup import Wakeup

_LAST_COMMANDS_MS: Final = 500


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """The connection to a slot that had reported was lost: the slot has ended, or its machine is down."""


class SlotMessage(NamedTuple):
    """A report of a slot, or a ConnectionLost."""

    stage: str
    slot: int
    message: Any


class _Stage:
    """The socket that the slots of one stage connect to."""

    def __init__(
        self,
        context: zmq.Context[Any],
        name: str,
        keys: StageKeys,
        heartbeat: HeartbeatSettings,
        listen_at: str,
    ) -> None:
        self.name = name
        self.socket = sockets.new_socket(
            context,
            zmq.ROUTER,
            heartbeat=heartbeat,
            linger_ms=_LAST_COMMANDS_MS,
        )
        self.socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        guard(self.socket, keys, name)
        self.connections = sockets.Connections(self.socket)
        self.address = sockets.bind(self.socket, listen_at)
        self._slots: dict[int, int] = {}  # by the file descriptor of the connection
        self.askable: set[int] = set()  # slots with an inspection connection

    def take(self) -> list[SlotMessage]:
        arrivals = []
        closed = {each: self._slots.pop(each, None) for each in self.connections.closed()}
        # Messages that arrived before the connection was closed are available now.
        while sockets.has_message(self.socket):
            identity, content = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
            asked = inspection.slot_of(identity.bytes)
            if (
                asked is not None
            ):  # an answer; the end of this connection says nothing about the slot
                self.askable.add(asked)
                arrivals.append(SlotMessage(self.name, asked, pickle.loads(content.buffer)))
                continue
            slot = int(identity.bytes)
            self._slots[content.get(zmq.SRCFD)] = slot
            arrivals.append(SlotMessage(self.name, slot, pickle.loads(content.buffer)))
        for connection, known in closed.items():
            heard = self._slots.get(connection)
            if known is None or heard == known:
                self._slots.pop(connection, None)
            lost = heard if known is None else known
            if lost is not None:
                arrivals.append(SlotMessage(self.name, lost, ConnectionLost()))
        return arrivals

    def close(self) -> None:
        self.connections.close()
        self.socket.close()


class DriverEndpoint:
    """The endpoint for slots: each stage has its own socket, which accepts only the keys of that attempt.

    Used by one thread; only `wake` is thread-safe. A slot is known once it has sent a report.
    """

    def __init__(
        self, host: str, heartbeat: HeartbeatSettings, listen_at: str | None = None
    ) -> None:
        """`host` is the name or address at which slots reach it; it also listens there, unless `listen_at` is given."""
        self._host = host
        self._heartbeat = heartbeat
        self._listen_at = listen_at or host
        self._context: zmq.Context[Any] = zmq.Context()
        self._authenticator = ZapAuthenticator(self._context)
        self._wakeup = Wakeup()
        self._poller = zmq.Poller()
        self._poller.register(self._authenticator.socket, zmq.POLLIN)
        self._poller.register(self._wakeup.fd, zmq.POLLIN)
        self._stages: dict[str, _Stage] = {}

    def open_stage(self, stage: str, keys: StageKeys) -> str:
        """Listen to the slots of an attempt of a stage; return the address. `stage` is unique, such as the attempt's token."""
        opened = self._stages[stage] = _Stage(
            self._context, stage, keys, self._heartbeat, self._listen_at
        )
        self._authenticator.admit(keys, stage)
        self._poller.register(opened.socket, zmq.POLLIN)
        self._poller.register(opened.connections.monitor, zmq.POLLIN)
        if self._listen_at == self._host:
            return opened.address
        return sockets.at_host(self._host, opened.address)

    def close_stage(self, stage: str) -> None:
        """Stop listening to a stage. Its slots notice that and end."""
        closed = self._stages.pop(stage, None)
        if closed is None:
            return
        self._authenticator.dismiss(stage)
        self._poller.unregister(closed.socket)
        self._poller.unregister(closed.connections.monitor)
        closed.close()

    def poll(self, seconds: float) -> list[SlotMessage]:
        """Return reports of slots; wait for them, at most `seconds` or until `wake`."""
        if self._poller.poll(sockets.milliseconds(seconds)):
            self._wakeup.clear()
        self._authenticator.answer()
        return [arrival for stage in self._stages.values() for arrival in stage.take()]

    def send(self, stage: str, slot: int, command: object) -> None:
        """Send a command to a slot that has reported. Commands to a lost slot are dropped."""
        opened = self._stages.get(stage)
        if opened is not None:
            opened.socket.send_multipart([b"%d" % slot, dumps(command)], zmq.NOBLOCK)

    def ask(self, stage: str, slot: int, question: inspection.InspectionQuestion) -> bool:
        """Send an inspection request to a slot; its Answer arrives, unless the slot is lost. False if it is not connected yet."""
        opened = self._stages.get(stage)
        if opened is None or slot not in opened.askable:
            return False
        name = inspection.identity_of(slot)
        opened.socket.send_multipart([name, dumps(question)], zmq.NOBLOCK)
        return True

    def wake(self) -> None:
        """Interrupt a `poll`, or the next one. Thread-safe."""
        self._wakeup.wake()

    def close(self) -> None:
        """Close all stages and release all resources."""
        for stage in list(self._stages):
            self.close_stage(stage)
        self._context.destroy()
        self._wakeup.close()
