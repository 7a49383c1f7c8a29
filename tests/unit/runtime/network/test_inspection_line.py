"""The connection for questions about a slot, with real sockets."""

from __future__ import annotations

import threading
import time

import pytest

from penstock.errors import ArgumentError
from penstock.graph.stage import HeartbeatSettings
from penstock.runtime.network import inspection
from penstock.runtime.network.authentication import identify, make_keys
from penstock.runtime.network.driver_endpoint import DriverEndpoint
from penstock.runtime.network.inspection import InspectionAnswer, InspectionLine, InspectionQuestion
from penstock.runtime.network.sockets import Connections
from tests.unit.runtime.network.slots import HOST, TIMEOUT_S, Handshakes


@pytest.fixture
def endpoint():
    made = DriverEndpoint(HOST, HeartbeatSettings())
    yield made
    made.close()


@pytest.fixture
def connect(endpoint):
    """Connects a line that answers by a function, and waits until it can be asked."""
    lines = []

    def connect(answer, keys=None):
        own = make_keys()
        address = endpoint.open_stage("stage", own)
        line = InspectionLine(address, 3, keys or own, HeartbeatSettings(), answer)
        lines.append(line)
        return line

    yield connect
    for line in lines:
        line.close()


def ask(endpoint, *questions):
    deadline = time.monotonic() + TIMEOUT_S
    kept = []
    while not endpoint.ask("stage", 3, questions[0]):
        assert time.monotonic() < deadline
        kept += endpoint.poll(0.01)
    for question in questions[1:]:
        assert endpoint.ask("stage", 3, question)
    return kept


def answers(endpoint, *questions):
    greeting = ask(endpoint, *questions)
    arrived = list(greeting)
    deadline = time.monotonic() + TIMEOUT_S
    while len(arrived) < 1 + len(questions):
        assert time.monotonic() < deadline, arrived
        arrived += endpoint.poll(0.01)
    return [each.message for each in arrived[1:]]


def test_request_is_answered_and_errors_are_reported(endpoint, connect):
    def answer(request):
        if request == "wrong":
            raise ArgumentError("there is no such thing", hint="ask something else")
        if request == "broken":
            raise RuntimeError("oh")
        return request * 2

    connect(answer)
    found = answers(
        endpoint,
        InspectionQuestion(1, "a"),
        InspectionQuestion(2, "wrong"),
        InspectionQuestion(3, "broken"),
    )
    assert sorted(found, key=lambda each: each.number) == [
        InspectionAnswer(1, "aa"),
        InspectionAnswer(2, error="there is no such thing"),
        InspectionAnswer(3, error="RuntimeError: oh"),
    ]


def test_an_answer_that_does_not_travel_is_an_error(endpoint, connect):
    connect(lambda request: threading.Lock())
    (found,) = answers(endpoint, InspectionQuestion(1, "a"))
    assert found.error.startswith("the answer cannot be pickled")


def test_long_answers_do_not_hold_up_short_ones_and_there_are_not_too_many(endpoint, connect):
    let_go = threading.Event()
    connect(lambda request: request if request == "short" else let_go.wait(TIMEOUT_S))
    (first,) = answers(endpoint, InspectionQuestion(1, "short"))
    assert first == InspectionAnswer(1, "short")
    for number in range(2, 5):
        assert endpoint.ask("stage", 3, InspectionQuestion(number, "long"))
    assert endpoint.ask("stage", 3, InspectionQuestion(5, "short"))
    arrived = []
    while not arrived:
        arrived = endpoint.poll(0.01)
    assert [each.message for each in arrived] == [InspectionAnswer(5, "short")]
    for number in (6, 7):
        assert endpoint.ask("stage", 3, InspectionQuestion(number, "long"))
    while len(arrived) < 2:
        arrived += endpoint.poll(0.01)
    assert arrived[1].message == InspectionAnswer(7, error="the slot is busy with 4 other requests")
    let_go.set()


def test_the_end_of_the_line_says_nothing_about_the_slot(endpoint, connect, monkeypatch):
    look, closed = Connections.closed, []

    def note(connections):
        found = look(connections)
        closed.extend(found)
        return found

    monkeypatch.setattr(Connections, "closed", note)
    line = connect(lambda request: request)
    answers(endpoint, InspectionQuestion(1, "a"))
    line.close()
    arrived = []
    while not closed:
        arrived += endpoint.poll(0.02)
    assert arrived == []


def test_who_does_not_have_the_keys_is_not_heard(endpoint, connect, monkeypatch):
    watched = []

    def identify_and_watch(socket, keys):
        watched.append(Handshakes(socket))
        identify(socket, keys)

    monkeypatch.setattr(inspection, "identify", identify_and_watch)
    connect(lambda request: request, keys=make_keys())
    (handshakes,) = watched
    while not handshakes.look():
        assert endpoint.poll(0.02) == []
    assert (handshakes.accepted, handshakes.refused > 0) == (0, True)
    assert not endpoint.ask("stage", 3, InspectionQuestion(1, "a"))


def test_a_line_closes_while_an_answer_is_being_worked_on(endpoint, connect):
    begun, let_go = threading.Event(), threading.Event()

    def answer(request):
        begun.set()
        let_go.wait()

    line = connect(answer)
    ask(endpoint, InspectionQuestion(1, "long"))
    assert begun.wait(TIMEOUT_S)
    line.close()  # it would never return if it waited for the answer
    line._thread.join(TIMEOUT_S)
    assert not line._thread.is_alive()
    let_go.set()
