"""Runs a coordinator through epochs, for its tests."""

from __future__ import annotations

from dataclasses import replace

from penstock.checkpoint.messages import (
    CommitFinished,
    ManifestWritten,
    PipeFinished,
    RunPipe,
    WriteManifest,
)
from penstock.graph.task_id import TaskId
from tests.builders.checkpoint_builders import (
    OPERATORS,
    READ,
    SUM0,
    SUM1,
    ack,
    start,
)


def run_pipe(coordinator, checkpoint_id=1, plan=None, acks=None, now_ms=None):
    """Run an epoch up to the end of its pipe; return what follows."""
    assert coordinator.handle(plan or start(checkpoint_id)) == [RunPipe(checkpoint_id)]
    for one in (
        acks if acks is not None else [ack(task, checkpoint_id) for task in (SUM1, SUM0, READ)]
    ):
        assert coordinator.handle(one) == []
    return coordinator.handle(PipeFinished(checkpoint_id, now_ms or 1000 * checkpoint_id + 500))


def complete(coordinator, checkpoint_id=1, plan=None, acks=None, pending=None):
    """Run an epoch to its end; return the manifest and the last instructions."""
    (write,) = run_pipe(coordinator, checkpoint_id, plan, acks)
    assert isinstance(write, WriteManifest), write
    coordinator.handle(ManifestWritten(checkpoint_id))
    return write.manifest, coordinator.handle(CommitFinished("sink", checkpoint_id, pending))


def rescaled(checkpoint_id, parallelism):
    """Return the plan of an epoch with another parallelism, and its acks."""
    operators = (OPERATORS[0], *(replace(op, parallelism=parallelism) for op in OPERATORS[1:]))
    tasks = [READ, *(TaskId("sum", i) for i in range(parallelism))]
    plan = start(checkpoint_id, operators=operators, expected=frozenset(tasks), channels=None)
    return plan, [ack(task, checkpoint_id) for task in tasks]
