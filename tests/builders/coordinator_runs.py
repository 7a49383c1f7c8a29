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


def run_pipe(coordinator, epoch=1, plan=None, acks=None, now_ms=None):
    """Run an epoch up to the end of its pipe; return what follows."""
    assert coordinator.handle(plan or start(epoch)) == [RunPipe(epoch)]
    for one in acks if acks is not None else [ack(task, epoch) for task in (SUM1, SUM0, READ)]:
        assert coordinator.handle(one) == []
    return coordinator.handle(PipeFinished(epoch, now_ms or 1000 * epoch + 500))


def complete(coordinator, epoch=1, plan=None, acks=None, pending=None):
    """Run an epoch to its end; return the manifest and the last instructions."""
    (write,) = run_pipe(coordinator, epoch, plan, acks)
    assert isinstance(write, WriteManifest), write
    coordinator.handle(ManifestWritten(epoch))
    return write.manifest, coordinator.handle(CommitFinished("sink", epoch, pending))


def rescaled(epoch, parallelism):
    """Return the plan of an epoch with another parallelism, and its acks."""
    operators = (OPERATORS[0], *(replace(op, parallelism=parallelism) for op in OPERATORS[1:]))
    tasks = [READ, *(TaskId("sum", i) for i in range(parallelism))]
    plan = start(epoch, operators=operators, expected=frozenset(tasks), channels=None)
    return plan, [ack(task, epoch) for task in tasks]
