"""How long clients may take, and what answering them may take of a processor: on a clock that only the test moves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from uvicorn.server import ServerState

from penstock.rest.messages import Response
from penstock.rest.routing.routes import Role, Route, Services
from penstock.rest.security.access import Access
from penstock.rest.security.audit import Audit
from penstock.rest.server.application import create_application
from penstock.rest.server.connection import Connection
from penstock.rest.server.in_flight_requests import InFlightRequests
from penstock.rest.server.limits import RequestLimits
from penstock.rest.server.throttling import RequestThrottle

TOKEN = "a-token"
PART = b" " * (1 << 16)


class ManualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time stands still until a test moves it."""

    now = 1000.0

    def time(self) -> float:
        return self.now

    async def let_pass(self, seconds: float) -> None:
        """Move the clock, and let everything happen that is due then."""
        self.now += seconds
        for _ in range(5):
            await asyncio.sleep(0)


def run(main: Callable[[ManualLoop], Coroutine[Any, Any, Any]]) -> Any:
    with asyncio.Runner(loop_factory=ManualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, ManualLoop)
        return runner.run(main(loop))


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0)


def application(
    limits: RequestLimits,
    throttle: RequestThrottle | None = None,
    work: Callable[[], object] = lambda: None,
) -> Starlette:
    def answer(_services: Services, _request: object) -> Response:
        work()
        return Response({})

    routes = [
        Route("POST", "/put", answer, "", Role.READ, max_body_bytes=1 << 30),
        Route("GET", "/get", answer, ""),
    ]
    return create_application(
        Services(), Access(TOKEN), routes, limits, InFlightRequests(), Audit(), throttle=throttle
    )


async def ask(
    app: Starlette, method: str, path: str, receive: Callable[[], Coroutine[Any, Any, Any]]
) -> int:
    """Send a request to an application, and return the status of its answer."""
    answers: list[Any] = []

    async def send(message: Any) -> None:
        answers.append(message)

    scope = {
        "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path,
        "raw_path": path.encode(), "query_string": b"", "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "state": {},
    }  # fmt: skip
    await app(scope, receive, send)
    return answers[0]["status"]


# Bodies


@pytest.mark.parametrize(
    ("pause_s", "part", "status"),
    [
        (0.9, PART, 200),
        (1.4, PART, 408),
        (0.1, b" ", 408),
    ],
    ids=["as fast as it must", "too slow", "drops"],
)
def test_a_body_may_take_as_long_as_its_size_allows(
    pause_s: float, part: bytes, status: int
) -> None:
    """There are 2 s for all of it, and one more for each of its 30 parts if that has the bytes of a second."""

    async def main(loop: ManualLoop) -> int:
        left = 30

        async def receive() -> dict[str, Any]:
            nonlocal left
            left -= 1
            await loop.let_pass(pause_s)
            return {"type": "http.request", "body": part, "more_body": left > 0}

        limits = RequestLimits(arrival_s=2.0, bytes_per_s=len(PART), processor_share=1.0)
        return await ask(application(limits), "POST", "/put", receive)

    assert run(main) == status


# Clients that read slowly, or not at all


class Transport(asyncio.Transport):
    """What a connection writes to; the test decides how much of it the client has taken."""

    def __init__(self) -> None:
        super().__init__()
        self.unsent = 0
        self.aborted = False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.unsent += len(data)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def answered(loop: ManualLoop, limits: RequestLimits) -> Transport:
    """Return the transport of a connection on which a request was answered, and nothing of the answer taken."""
    config = uvicorn.Config(
        application(limits), http=Connection, loop="none", lifespan="off", log_config=None,
        timeout_keep_alive=10**6,
    )  # fmt: skip
    config.load()
    connection_type: Any = type("Limited", (Connection,), {"limits": limits})
    connection = connection_type(config, ServerState(), {}, loop)
    transport = Transport()
    connection.connection_made(transport)
    connection.data_received(b"GET /get HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await until(lambda: connection.cycle.response_complete)
    assert transport.unsent
    return transport


LIMITS = RequestLimits(sending_s=10.0, arrival_s=3.0, processor_share=1.0)


def test_a_client_that_takes_something_now_and_then_gets_all() -> None:
    async def main(loop: ManualLoop) -> None:
        transport = await answered(loop, LIMITS)
        for _ in range(20):
            transport.unsent -= 1
            await loop.let_pass(10.0)
            assert not transport.aborted

    run(main)


def test_a_client_that_takes_nothing_for_long_is_given_up() -> None:
    async def main(loop: ManualLoop) -> None:
        transport = await answered(loop, LIMITS)
        transport.unsent -= 1
        await loop.let_pass(10.0)
        await loop.let_pass(9.9)
        assert not transport.aborted
        await loop.let_pass(0.1)
        assert transport.aborted

    run(main)


def test_a_client_that_has_all_has_some_time_for_its_next_request() -> None:
    async def main(loop: ManualLoop) -> None:
        transport = await answered(loop, LIMITS)
        transport.unsent = 0
        await loop.let_pass(9.9)
        assert not transport.aborted
        await loop.let_pass(0.1)
        assert transport.aborted

    run(main)


# What answering takes


def work(seconds: float) -> None:
    """Take this much time of a processor, however busy the machine is."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Pauses:
    """A clock that moves only during a sleep."""

    def __init__(self) -> None:
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("in_thread", [True, False], ids=["handler", "event loop"])
def test_the_next_request_waits_until_the_share_has_paid_for_the_last_one(in_thread: bool) -> None:
    pauses = Pauses()
    limits = RequestLimits(processor_share=0.1, burst_s=0.0)

    async def receive() -> dict[str, Any]:
        if not in_thread:
            work(0.05)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def main(_loop: ManualLoop) -> None:
        throttle = RequestThrottle(limits, clock=lambda: pauses.now, sleep=pauses.sleep)
        handle = (lambda: work(0.05)) if in_thread else (lambda: None)
        app = application(limits, throttle, handle)
        for _ in range(2):
            before = pauses.now
            assert await ask(app, "POST", "/put", receive) == 200
        assert pauses.now - before >= 0.5  # the share is a tenth

    run(main)
