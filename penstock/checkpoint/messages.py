"""What the checkpoint coordinator is told (events) and what it asks for (instructions)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.checkpoint.handles import StateChain, StateHandle
from penstock.checkpoint.manifest import MIN_WATERMARK, Manifest
from penstock.connectors.sink import CommitRequest
from penstock.connectors.source import SplitProgress
from penstock.graph.state_description import StateDescription
from penstock.graph.task_id import TaskId


class Channel(NamedTuple):
    """What a task saw on one input channel: who sent, and the token of the attempt that sent it."""

    upstream: TaskId
    token: str
    gate: int = 0


@dataclass(frozen=True, slots=True)
class OperatorPlan:
    """What a manifest says about an operator besides its state. `committer`: it is a sink that commits."""

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
    """What a source reads in an epoch: the enumerator's snapshot, and the splits by owner subtask.

    `complete` says that all splits have been found.
    """

    enumerator: Any = None
    splits: Mapping[int, tuple[SplitProgress, ...]] = field(default_factory=dict)
    complete: bool = False


class Event:
    """Base of what happens to the coordinator."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class StartEpoch(Event):
    """Begin a checkpoint: the one that ends this epoch.

    `expected` are the tasks that will run. A subtask that is left out keeps what the last checkpoint says of it, which
    needs an unchanged parallelism. `sources` holds the sources whose splits or enumerator may have changed; the others
    keep theirs. `channels` says on which input channels each task must report; without it only what is reported is
    checked. `flush` asks the sinks to publish all that they have, as at the end of the job: no output is pending after such an
    epoch.
    """

    epoch: int
    operators: tuple[OperatorPlan, ...]
    expected: frozenset[TaskId]
    now_ms: int
    sources: Mapping[str, SourcePlan] = field(default_factory=dict)
    channels: Mapping[TaskId, frozenset[TaskId]] | None = None
    flush: bool = False


@dataclass(frozen=True, slots=True)
class Ack(Event):
    """A task reached the barrier of an epoch.

    `attempt` is a token that no other attempt of any task has. `states` are the chains after this epoch, by operator; an
    operator that is left out has not changed. `committables` are by sink operator. `splits` must hold every split that was
    assigned to the subtask, by source operator. `local` is the subtask's other state, `in_flight` what its channels held if its
    barriers have overtaken records.

    `carried` are committables that the task has handed over before, for checkpoints that it does not know to be complete: by
    checkpoint, then by sink operator. `sink_times` are watermarks, with whether the input is idle, of sinks that commit by them. `now_ms` is
    when the ack came in.
    """

    epoch: int
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
class TaskFailed(Event):
    """The pipe of an epoch failed; `task` is None if it is not known which one did."""

    epoch: int
    reason: str
    task: TaskId | None = None


@dataclass(frozen=True, slots=True)
class PipeFinished(Event):
    """The pipe of an epoch ended without an error; all its acks were handed over before."""

    epoch: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class AbortEpoch(Event):
    """A checkpoint is given up, and the tasks stay: one declined it, it took too long, or some have gone back.

    `failed`: the checkpoint itself is at fault.
    """

    epoch: int
    reason: str
    failed: bool = True


@dataclass(frozen=True, slots=True)
class ManifestWritten(Event):
    """The manifest of an epoch is durable."""

    epoch: int


@dataclass(frozen=True, slots=True)
class ManifestFailed(Event):
    """Writing the manifest failed; whether it is there, only storage knows. `fatal`: nor can a later one be written."""

    epoch: int
    reason: str
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class CommitFinished(Event):
    """A sink committed an epoch; `pending` is what its committer returned."""

    operator: str
    epoch: int
    pending: Any = None


@dataclass(frozen=True, slots=True)
class CommitFailed(Event):
    """A sink could not commit an epoch."""

    operator: str
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Restore(Event):
    """Go back to a completed checkpoint, or to the beginning if it is None.

    `retained` are all readable manifests in the job's own directory, with or without `manifest`. A manifest of another
    job must have absolute file names (`Manifest.relocated`).
    """

    manifest: Manifest | None
    retained: tuple[Manifest, ...] = ()


class Instruction:
    """Base of what the coordinator asks for. Instructions are carried out in the order they come."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class RunPipe(Instruction):
    """Run the pipe; hand over every ack, then PipeFinished; or TaskFailed."""

    epoch: int


@dataclass(frozen=True, slots=True)
class TriggerSources(Instruction):
    """Let the sources of the tasks that stay send the barrier; hand over every ack, or AbortEpoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class WriteManifest(Instruction):
    """Make the manifest durable; report ManifestWritten or ManifestFailed."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class CommitSink(Instruction):
    """Let the sink's committer commit; report CommitFinished or CommitFailed."""

    operator: str
    request: CommitRequest


@dataclass(frozen=True, slots=True)
class DeleteCheckpoint(Instruction):
    """Delete the manifest of an old epoch. Comes before the files that only it named."""

    epoch: int


@dataclass(frozen=True, slots=True)
class DeleteFiles(Instruction):
    """Delete state files, by name relative to the job's directory."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteOrphans(Instruction):
    """Delete all state files up to an epoch that are not needed: tasks wrote some that no ack has told of."""

    up_to_epoch: int
    needed: frozenset[str]


@dataclass(frozen=True, slots=True)
class EpochCompleted(Instruction):
    """Nothing is left to do for this epoch; if `final`, for the job."""

    epoch: int
    final: bool = False


@dataclass(frozen=True, slots=True)
class EpochAborted(Instruction):
    """A checkpoint will never be complete, and the job goes on: whoever waits for its barriers need not.

    `failed`: the checkpoint itself is at fault.
    """

    epoch: int
    reason: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Restored(Instruction):
    """The state of `epoch` (0: the beginning) is in force and its output is committed; if `final`, the job has finished."""

    epoch: int
    final: bool = False


@dataclass(frozen=True, slots=True)
class FailEpoch(Instruction):
    """Give the epoch up: the job must restart from what storage holds, by a Restore event.

    `durable` says that the epoch's manifest was written, so that only its commits are left to do.
    """

    epoch: int
    reason: str
    durable: bool = False
