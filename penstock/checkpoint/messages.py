"""Events for the checkpoint coordinator, and its instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.checkpoint.handles import StateChain, StateHandle
from penstock.checkpoint.manifest import MIN_WATERMARK, Manifest
from penstock.connectors.base.sink import CommitRequest
from penstock.connectors.base.source import SplitProgress
from penstock.graph.state_description import StateDescription
from penstock.graph.task_id import TaskId


class Channel(NamedTuple):
    """One input channel of a task as the task saw it: the sender, and the token of the sending attempt."""

    upstream: TaskId
    token: str
    gate: int = 0


@dataclass(frozen=True, slots=True)
class OperatorPlan:
    """The part of a manifest about an operator besides its state. `committer`: it is a sink that commits."""

    operator: str
    name: str
    vertex: str
    parallelism: int
    max_parallelism: int
    uid: str | None = None
    committer: bool = False
    description: StateDescription | None = None


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """A source's part of a checkpoint: the enumerator's snapshot, and the splits by owner subtask.

    `complete` says that all splits have been discovered.
    """

    enumerator: Any = None
    splits: Mapping[int, tuple[SplitProgress, ...]] = field(default_factory=dict)
    complete: bool = False


class CoordinatorEvent:
    """Base class of the coordinator's events."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint(CoordinatorEvent):
    """Begin a checkpoint.

    `expected` are the tasks that will run. An omitted subtask keeps its part of the last checkpoint, which requires an
    unchanged
    parallelism. `sources` holds the sources whose splits or enumerator may have changed; the others keep theirs.
    `channels` lists the
    input channels that each task must report; without it only reported channels are checked. `flush` asks the sinks to
    publish
    everything, as at the end of the job: no output is pending after such a checkpoint.
    """

    checkpoint_id: int
    operators: tuple[OperatorPlan, ...]
    expected: frozenset[TaskId]
    now_ms: int
    sources: Mapping[str, SourcePlan] = field(default_factory=dict)
    channels: Mapping[TaskId, frozenset[TaskId]] | None = None
    flush: bool = False


@dataclass(frozen=True, slots=True)
class Ack(CoordinatorEvent):
    """A task has passed the barrier of a checkpoint and taken its snapshot.

    `attempt` is a token that no other attempt of any task has. `states` are the chains after this checkpoint, by
    operator; an omitted
    operator has not changed. `committables` are by sink operator. `splits` must hold every split that was assigned to the
    subtask,
    by source operator. `local` is the subtask's other state, `in_flight` its in-flight records if the checkpoint is
    unaligned.

    `carried` are committables that the task handed over before, for checkpoints that it does not know to be complete: by
    checkpoint, then by sink operator. `sink_times` are the watermarks, with an idle flag, of sinks that commit by them.
    `now_ms` is
    when the ack arrived.
    """

    checkpoint_id: int
    task: TaskId
    attempt: str
    upstream: tuple[Channel, ...] = ()
    states: Mapping[str, StateChain] = field(default_factory=dict)
    committables: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    splits: Mapping[str, tuple[SplitProgress, ...]] = field(default_factory=dict)
    watermark: int = MIN_WATERMARK
    next_wakeup: int | None = None
    finished: bool = False
    local: bytes | None = None
    in_flight: StateHandle | None = None
    carried: Mapping[int, Mapping[str, tuple[Any, ...]]] = field(default_factory=dict)
    sink_times: Mapping[str, tuple[int, bool]] = field(default_factory=dict)
    now_ms: int = 0


@dataclass(frozen=True, slots=True)
class TaskFailed(CoordinatorEvent):
    """The pipe of an epoch failed; `task` is None if the failed task is unknown."""

    checkpoint_id: int
    reason: str
    task: TaskId | None = None


@dataclass(frozen=True, slots=True)
class PipeFinished(CoordinatorEvent):
    """The pipe of an epoch ended without an error; all its acks were handed over before."""

    checkpoint_id: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class AbortCheckpoint(CoordinatorEvent):
    """A checkpoint is aborted in pipelined mode: a task declined it, it expired, or some tasks were restored.

    `failed`: it counts as a failed checkpoint.
    """

    checkpoint_id: int
    reason: str
    failed: bool = True


@dataclass(frozen=True, slots=True)
class ManifestWritten(CoordinatorEvent):
    """The manifest of a checkpoint is durable."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class ManifestFailed(CoordinatorEvent):
    """Writing the manifest failed; only storage knows whether it exists. `fatal`: a later one cannot be written either."""

    checkpoint_id: int
    reason: str
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class CommitFinished(CoordinatorEvent):
    """A sink committed a checkpoint; `pending` is what its committer returned."""

    operator: str
    checkpoint_id: int
    pending: Any = None


@dataclass(frozen=True, slots=True)
class CommitFailed(CoordinatorEvent):
    """A sink failed to commit a checkpoint."""

    operator: str
    checkpoint_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class RestoreCheckpoint(CoordinatorEvent):
    """RestoreCheckpoint a completed checkpoint, or the initial state if it is None.

    `retained` are all readable manifests in the job's own directory, with or without `manifest`. A manifest of another
    job must have absolute file names (`Manifest.relocated`).
    """

    manifest: Manifest | None
    retained: tuple[Manifest, ...] = ()


class CoordinatorInstruction:
    """Base class of the coordinator's instructions, which are carried out in order."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class RunPipe(CoordinatorInstruction):
    """Run the pipe of an epoch; report every ack, then PipeFinished; or TaskFailed."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class TriggerSources(CoordinatorInstruction):
    """Trigger the barrier in the sources of a pipelined job; report every ack, or AbortCheckpoint."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class WriteManifest(CoordinatorInstruction):
    """Write the manifest durably; report ManifestWritten or ManifestFailed."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class CommitSink(CoordinatorInstruction):
    """Run the sink's committer; report CommitFinished or CommitFailed."""

    operator: str
    request: CommitRequest


@dataclass(frozen=True, slots=True)
class DeleteCheckpoint(CoordinatorInstruction):
    """Delete the manifest of an old checkpoint. Comes before the deletion of files that only it named."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class DeleteFiles(CoordinatorInstruction):
    """Delete state files, by name relative to the job's directory."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteOrphans(CoordinatorInstruction):
    """Delete all unreferenced state files up to a checkpoint: tasks wrote some that no ack reported."""

    up_to_checkpoint_id: int
    needed: frozenset[str]


@dataclass(frozen=True, slots=True)
class NotifyCheckpointComplete(CoordinatorInstruction):
    """The checkpoint is complete and nothing is left to do for it; if `final`, nor for the job."""

    checkpoint_id: int
    final: bool = False


@dataclass(frozen=True, slots=True)
class NotifyCheckpointAborted(CoordinatorInstruction):
    """A checkpoint was aborted while the job continues: tasks no longer wait for its barriers.

    `failed`: it counts as a failed checkpoint.
    """

    checkpoint_id: int
    reason: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointRestored(CoordinatorInstruction):
    """Checkpoint `checkpoint_id` (0: the initial state) is restored and its output is committed; if `final`, the job has finished."""

    checkpoint_id: int
    final: bool = False


@dataclass(frozen=True, slots=True)
class FailExecution(CoordinatorInstruction):
    """Fail the execution: the job must restart from storage by a RestoreCheckpoint event.

    `durable` says that the checkpoint's manifest was written, so that only its commits are left to do.
    """

    checkpoint_id: int
    reason: str
    durable: bool = False
