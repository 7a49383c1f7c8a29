"""What a subtask hands over again, until it knows that a checkpoint has it."""

from __future__ import annotations

from penstock.graph.task_id import TaskId
from penstock.runtime.network.messages import TaskAck
from penstock.runtime.task.pipelined.unconfirmed_committables import UnconfirmedCommittables


def ack(*committables):
    return TaskAck(
        task=TaskId("v", 0),
        attempt="a",
        upstream={},
        keyed={},
        local=b"",
        committables={"sink": list(committables)} if committables else {},
    )


def test_committables_are_carried_until_a_checkpoint_that_has_them_is_complete():
    kept = UnconfirmedCommittables()
    assert kept.passed(1, ack("x")).carried == {}
    assert kept.passed(2, ack("y")).carried == {1: {"sink": ["x"]}}
    kept.completed(1)
    assert kept.passed(3, ack()).carried == {2: {"sink": ["y"]}}
    assert kept.passed(4, ack("z")).carried == {2: {"sink": ["y"]}}  # 3 may have been given up
    kept.completed(4)
    assert kept.passed(5, ack()).carried == {}
