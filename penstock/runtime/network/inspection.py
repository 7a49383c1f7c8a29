"""A slot's second connection to the driver, for inspection requests, with its own thread.

The first connection is served by the thread that runs the subtasks, which may be stuck in user code.
"""

from __future__ import annotations

import logging
import pickle
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import zmq

from penstock.errors import PenstockError
from penstock.graph.stage import HeartbeatSettings, StageKeys
from penstock.pickling.portable_pickles import dumps
from penstock.runtime.network import sockets
from penstock.runtime.network.authentication import identify
from penstock.runtime.network.wakeup import Wakeup

_MOST_AT_ONCE: Final = 4  # concurrent requests per slot
_CLOSING_S: Final = 2.0
_PREFIX: Final = b"?"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InspectionQuestion:
    """A request to a slot; its answer has the same number."""

    number: int
    request: Any


@dataclass(frozen=True, slots=True)
class InspectionAnswer:
    """The answer of a slot, or its error."""

    number: int
    value: Any = None
    error: str | None = None


HELLO: Final = InspectionAnswer(0)  # the first message of a slot: from now on it accepts requests


def identity_of(slot: int) -> bytes:
    """Return the identity of this connection of a slot at the driver's socket."""
    return b"%b%d" % (_PREFIX, slot)


def slot_of(identity: bytes) -> int | None:
    """Return the slot of such an identity, else None.

    >>> slot_of(identity_of(3)), slot_of(b"3")
    (3, None)
    """
    return int(identity[1:]) if identity.startswith(_PREFIX) else None


class InspectionLine:
    """Passes the driver's requests to `answer`, each in its own thread, and sends the results."""

    def __init__(
        self,
        driver: str,
        slot: int,
        keys: StageKeys,
        heartbeat: HeartbeatSettings,
        answer: Callable[[Any], Any],
    ) -> None:
        self._answer = answer
        self._context: zmq.Context[Any] = zmq.Context()
        self._wakeup = Wakeup()
        self._done: deque[InspectionAnswer] = deque()
        self._under_way = 0  # changed by this thread only
        self._closed = False
        socket = sockets.new_socket(self._context, zmq.DEALER, heartbeat=heartbeat)
        socket.setsockopt(zmq.ROUTING_ID, identity_of(slot))
        identify(socket, keys)
        sockets.connect(socket, driver)
        self._socket = socket
        self._thread = threading.Thread(
            target=self._run, name=f"penstock-inspection-{slot}", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._wakeup.fd, zmq.POLLIN)
        self._send(HELLO)
        try:
            while not self._closed:
                poller.poll()
                self._wakeup.clear()
                while self._done:
                    self._under_way -= 1
                    self._send(self._done.popleft())
                while sockets.has_message(self._socket):
                    self._take(pickle.loads(self._socket.recv(zmq.NOBLOCK)))
        except Exception:  # noqa: BLE001 - the slot's work does not depend on it
            _log.warning("inspection of this slot failed and is no longer available", exc_info=True)
        finally:
            self._context.destroy()

    def _take(self, question: InspectionQuestion) -> None:
        if self._under_way >= _MOST_AT_ONCE:
            why = f"the slot is busy with {_MOST_AT_ONCE} other requests"
            self._send(InspectionAnswer(question.number, error=why))
            return
        self._under_way += 1
        threading.Thread(
            target=self._work, args=(question,), name="penstock-inspection", daemon=True
        ).start()

    def _work(self, question: InspectionQuestion) -> None:
        try:
            answer = InspectionAnswer(question.number, self._answer(question.request))
        except PenstockError as error:
            answer = InspectionAnswer(question.number, error=error.message)
        except Exception as error:  # noqa: BLE001 - reported in the answer
            answer = InspectionAnswer(question.number, error=f"{type(error).__name__}: {error}")
        self._done.append(answer)
        self._wakeup.wake()

    def _send(self, answer: InspectionAnswer) -> None:
        try:
            content = dumps(answer)
        except PenstockError as error:
            content = dumps(
                InspectionAnswer(answer.number, error=f"the answer cannot be pickled: {error}")
            )
        self._socket.send(content, zmq.NOBLOCK)

    def close(self) -> None:
        """Stop answering. Returns soon, even if a request is being processed."""
        self._closed = True
        self._wakeup.wake()
        self._thread.join(_CLOSING_S)
        if not self._thread.is_alive():
            self._wakeup.close()
