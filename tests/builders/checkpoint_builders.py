"""Builders of manifests, events and directories of checkpoints."""

from __future__ import annotations

from pathlib import Path

from penstock.checkpoint.handles import StateChain, StateHandle, state_file_name
from penstock.checkpoint.manifest import (
    Manifest,
    OperatorSnapshot,
    SourceSnapshot,
    SubtaskSnapshot,
    VertexSnapshot,
)
from penstock.checkpoint.messages import Ack, Channel, OperatorPlan, SourcePlan, TriggerCheckpoint
from penstock.checkpoint.pickled import Pickled
from penstock.connectors.base.sink import CommitRequest
from penstock.connectors.base.source import SourceSplit, SplitProgress
from penstock.graph.task_id import TaskId

READ = TaskId("read", 0)
SUM0, SUM1 = TaskId("sum", 0), TaskId("sum", 1)

OPERATORS = (
    OperatorPlan("source", "numbers", "read", 1, 128),
    OperatorPlan("total", "total per key", "sum", 2, 128, uid="my-total"),
    OperatorPlan("sink", "files", "sum", 2, 128, committer=True),
)


def full(name: str, size: int = 10) -> StateHandle:
    return StateHandle("full", size, 0, (0, 128), name=name)


def delta(name: str, size: int = 1) -> StateHandle:
    return StateHandle("delta", size, 0, (0, 128), name=name)


def file_of(checkpoint_id: int, task: TaskId, attempt: str) -> str:
    return state_file_name(checkpoint_id, task.vertex, task.subtask, attempt)


def progress(split_id: str, position: int, *, finished: bool = False) -> SplitProgress:
    return SplitProgress(SourceSplit(split_id), position, finished)


def manifest(
    checkpoint_id: int = 1, *, files: tuple[str, ...] = (), job_id: str = "job", **more
) -> Manifest:
    """A manifest of one operator whose chain has these files."""
    chain = StateChain(tuple(full(name) if i == 0 else delta(name) for i, name in enumerate(files)))
    parts = {
        "vertices": {"sum": VertexSnapshot((SubtaskSnapshot(5, False, 99, "t1", b"x"),))},
        "operators": {"total": OperatorSnapshot("my-total", "total", "sum", 128, (chain,))},
        "sources": {
            "source": SourceSnapshot(Pickled.of("seen"), (Pickled.of((progress("s", 3),)),))
        },
        "commits": {"sink": Pickled.of(CommitRequest(checkpoint_id, [f"out-{checkpoint_id}"]))},
    }
    return Manifest(job_id, "a job", checkpoint_id, 1000 + checkpoint_id, **{**parts, **more})


def start(checkpoint_id: int = 1, **changes) -> TriggerCheckpoint:
    """The plan of one source subtask (split s) and two subtasks that sum up and write."""
    values = {
        "operators": OPERATORS,
        "expected": frozenset({READ, SUM0, SUM1}),
        "now_ms": 1000 * checkpoint_id,
        "sources": {
            "source": SourcePlan(f"seen-{checkpoint_id}", {0: (progress("s", checkpoint_id - 1),)})
        },
        "channels": {SUM0: frozenset({READ}), SUM1: frozenset({READ})},
    }
    return TriggerCheckpoint(checkpoint_id, **{**values, **changes})


def ack(task: TaskId, checkpoint_id: int = 1, attempt: str | None = None, **changes) -> Ack:
    """The ack that a healthy task sends in the plan of `start`."""
    token = attempt or f"{task.vertex}{task.subtask}a{checkpoint_id}"
    values: dict = {"watermark": 10 * checkpoint_id}
    if task == READ:
        values["splits"] = {"source": (progress("s", checkpoint_id),)}
    else:
        values["upstream"] = (Channel(READ, f"read0a{checkpoint_id}"),)
        values["states"] = {"total": StateChain((full(file_of(checkpoint_id, task, token)),))}
        values["committables"] = {"sink": (f"{task.subtask}@{checkpoint_id}",)}
    return Ack(checkpoint_id, task, token, **{**values, **changes})


def lay_out(directory, *names):
    """Make files, and directories where a name ends with a slash."""
    for name in names:
        path = Path(directory, name)
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
