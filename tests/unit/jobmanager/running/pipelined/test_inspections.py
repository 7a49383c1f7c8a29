"""Questions about slots: which slots get them, when they are given up, and who gets the answer."""

from __future__ import annotations

import pytest

from penstock.errors import JobRequestError
from penstock.graph.task_id import TaskId
from penstock.jobmanager.running.pipelined.inspections import TIMEOUT_S, Inspections, NoAnswerError
from penstock.runtime.inspection.requests import SlotId, StackSamples, ThreadDump
from penstock.runtime.network.inspection import InspectionAnswer

TASK = TaskId("v", 0)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def woken():
    return []


@pytest.fixture
def inspections(clock, woken):
    return Inspections(lambda: woken.append(1), clock)


def send(inspections, token="attempt"):
    (asked,) = inspections.take()
    inspections.sent(asked, token)
    return asked.question.number


def test_a_question_wakes_the_driver_and_its_answer_is_handed_over(inspections, woken):
    result = inspections.ask(TASK, ThreadDump())
    assert woken == [1]
    number = send(inspections)
    assert inspections.take() == []
    inspections.on_answer(InspectionAnswer(number, "all is well"))
    assert result.result(0) == "all is well"


def test_what_a_slot_cannot_answer_is_an_error(inspections):
    result = inspections.ask(TASK, ThreadDump())
    inspections.on_answer(InspectionAnswer(send(inspections), error="it does not run here"))
    with pytest.raises(JobRequestError, match="it does not run here"):
        result.result(0)


def test_a_slot_that_says_nothing_is_given_up_after_what_it_needs_and_some_patience(
    inspections, clock
):
    short = inspections.ask(TASK, ThreadDump())
    number = send(inspections)
    long = inspections.ask(SlotId(0, 1), StackSamples(100, 100))
    send(inspections)
    clock.now = TIMEOUT_S + 1
    inspections.take()
    with pytest.raises(NoAnswerError, match=r"task v\[0\] did not answer in time"):
        short.result(0)
    assert not long.done()
    clock.now = TIMEOUT_S + 11
    inspections.take()
    with pytest.raises(NoAnswerError, match="stage 0, slot 1 did not answer"):
        long.result(0)
    inspections.on_answer(InspectionAnswer(number, "too late"))  # no caller waits for it


def test_a_question_whose_slot_cannot_be_asked_yet_waits_and_is_given_up_too(inspections, clock):
    result = inspections.ask(TASK, ThreadDump())
    (asked,) = inspections.take()
    inspections.postpone(asked)
    assert inspections.take() == [asked]
    inspections.postpone(asked)
    clock.now = TIMEOUT_S + 1
    assert inspections.take() == []
    with pytest.raises(NoAnswerError):
        result.result(0)


def test_when_an_attempt_ends_only_its_own_questions_are_given_up(inspections):
    lost, kept = inspections.ask(TASK, ThreadDump()), inspections.ask(SlotId(1, 0), ThreadDump())
    one, other = inspections.take()
    inspections.sent(one, "first")
    inspections.sent(other, "second")
    inspections.on_ended("first")
    with pytest.raises(NoAnswerError, match="has ended"):
        lost.result(0)
    assert not kept.done()


def test_after_the_end_everything_is_refused(inspections):
    sent = inspections.ask(TASK, ThreadDump())
    send(inspections)
    waiting = inspections.ask(TASK, ThreadDump())
    inspections.close()
    for result in (sent, waiting, inspections.ask(TASK, ThreadDump())):
        with pytest.raises(JobRequestError, match="is not running any more"):
            result.result(0)


def test_a_question_that_was_given_up_by_who_asked_needs_no_answer(inspections):
    result = inspections.ask(TASK, ThreadDump())
    number = send(inspections)
    assert result.cancel()
    inspections.on_answer(InspectionAnswer(number, "never mind"))
    assert result.cancelled()
