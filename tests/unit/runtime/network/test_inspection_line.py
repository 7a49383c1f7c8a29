"""The connection for questions about a slot, with real sockets."""

from __future__ import annotations

import threading
import time

import pytest

from penstock.errors import ArgumentError
from penstock.runtime.network.driver_endpoint import ConnectionLost, DriverEndpoint
from penstock.runtime.network.inspection import Answer, InspectionLine, Question
from penstock.runtime.network.keys import make_keys
from tests.unit.runtime.network.slots import HOST, PATIENCE_S


@pytest.fixture
def endpoint():
    made = DriverEndpoint(HOST)
    yield made
    made.close()


@pytest.fixture
def connect(endpoint):
    """Connects a line that answers by a function, and waits until it can be asked."""
    lines = []

    def connect(answer, keys=None):
        own = make_keys()
        address = endpoint.open_stage("stage", own)
        line = InspectionLine(address, 3, keys or own, answer)
        lines.append(line)
        return line

    yield connect
    for line in lines:
        line.close()


def ask(endpoint, *questions):
    deadline = time.monotonic() + PATIENCE_S
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
    deadline = time.monotonic() + PATIENCE_S
    while len(arrived) < 1 + len(questions):
        assert time.monotonic() < deadline, arrived
        arrived += endpoint.poll(0.01)
    return [each.message for each in arrived[1:]]


def test_a_question_is_answered_and_an_error_is_told(endpoint, connect):
    def answer(request):
        if request == "wrong":
            raise ArgumentError("there is no such thing", hint="ask something else")
        if request == "broken":
            raise RuntimeError("oh")
        return request * 2

    connect(answer)
    found = answers(endpoint, Question(1, "a"), Question(2, "wrong"), Question(3, "broken"))
    assert sorted(found, key=lambda each: each.number) == [
        Answer(1, "aa"),
        Answer(2, error="there is no such thing"),
        Answer(3, error="RuntimeError: oh"),
    ]


def test_an_answer_that_does_not_travel_is_an_error(endpoint, connect):
    connect(lambda request: threading.Lock())
    (found,) = answers(endpoint, Question(1, "a"))
    assert found.error.startswith("the answer does not travel")


def test_long_answers_do_not_hold_up_short_ones_and_there_are_not_too_many(endpoint, connect):
    let_go = threading.Event()
    connect(lambda request: request if request == "short" else let_go.wait(PATIENCE_S))
    (first,) = answers(endpoint, Question(1, "short"))
    assert first == Answer(1, "short")
    for number in range(2, 5):
        assert endpoint.ask("stage", 3, Question(number, "long"))
    assert endpoint.ask("stage", 3, Question(5, "short"))
    arrived = []
    while not arrived:
        arrived = endpoint.poll(0.01)
    assert [each.message for each in arrived] == [Answer(5, "short")]
    for number in (6, 7):
        assert endpoint.ask("stage", 3, Question(number, "long"))
    while len(arrived) < 2:
        arrived += endpoint.poll(0.01)
    assert arrived[1].message == Answer(7, error="the slot is answering 4 other questions")
    let_go.set()


def test_the_end_of_the_line_says_nothing_about_the_slot(endpoint, connect):
    line = connect(lambda request: request)
    answers(endpoint, Question(1, "a"))
    line.close()
    until_s = time.monotonic() + 0.2
    while time.monotonic() < until_s:
        assert not [each for each in endpoint.poll(0.02) if each.message == ConnectionLost()]


def test_who_does_not_have_the_keys_is_not_heard(endpoint, connect):
    connect(lambda request: request, keys=make_keys())
    until_s = time.monotonic() + 0.3
    while time.monotonic() < until_s:
        assert endpoint.poll(0.02) == []
    assert not endpoint.ask("stage", 3, Question(1, "a"))


def test_a_line_closes_soon_while_an_answer_is_being_worked_on(endpoint, connect):
    let_go = threading.Event()
    line = connect(lambda request: let_go.wait(PATIENCE_S))
    ask(endpoint, Question(1, "long"))
    begun = time.monotonic()
    line.close()
    assert time.monotonic() - begun < PATIENCE_S / 2
    let_go.set()
