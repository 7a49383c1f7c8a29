"""What a subtask hands over again, until it knows that a checkpoint has it."""

from __future__ import annotations

from penstock.graph.task_id import TaskId
from penstock.runtime.network.messages import TaskAck
from penstock.runtime.task.unconfirmed import Unconfirmed


def ack(*committables, records=0):
    return TaskAck(
        task=TaskId("v", 0),
        attempt="a",
        upstream={},
        keyed={},
        local=b"",
        committables={"sink": list(committables)} if committables else {},
        metrics={"sink": {"records": ("counter", records)}},
    )


def test_committables_are_carried_until_a_checkpoint_that_has_them_is_complete():
    kept = Unconfirmed()
    assert kept.passed(1, ack("x")).carried == {}
    assert kept.passed(2, ack("y")).carried == {1: {"sink": ["x"]}}
    kept.completed(1)
    assert kept.passed(3, ack()).carried == {2: {"sink": ["y"]}}
    assert kept.passed(4, ack("z")).carried == {2: {"sink": ["y"]}}
    kept.completed(4)
    assert kept.passed(5, ack()).carried == {}


def test_committables_of_a_checkpoint_that_was_given_up_are_carried_on():
    kept = Unconfirmed()
    kept.passed(1, ack("x"))
    kept.aborted(1)
    assert kept.passed(2, ack("y")).carried == {1: {"sink": ["x"]}}


def counted(found):
    return found.metrics["sink"]["records"][1]


def test_what_was_counted_for_a_checkpoint_that_was_given_up_counts_for_the_next():
    kept = Unconfirmed()
    assert counted(kept.passed(1, ack(records=5))) == 5
    kept.aborted(1)
    assert counted(kept.passed(2, ack(records=3))) == 8
    kept.aborted(2)
    assert counted(kept.passed(3, ack(records=1))) == 9
    kept.completed(3)
    assert counted(kept.passed(4, ack(records=2))) == 2
    kept.aborted(3)  # it is known to be complete
    assert counted(kept.passed(5, ack(records=2))) == 2
