"""A pending checkpoint: its plan and the acks received so far. Pure data and checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.checkpoint.handles import StateChain, StateHandle
from penstock.checkpoint.manifest import (
    MIN_WATERMARK,
    Manifest,
    OperatorSnapshot,
    SourceSnapshot,
    SubtaskSnapshot,
    VertexSnapshot,
)
from penstock.checkpoint.messages import Ack, OperatorPlan, SourcePlan, TriggerCheckpoint
from penstock.checkpoint.pickled import Pickled
from penstock.connectors.base.sink import CommitRequest
from penstock.connectors.base.source import SplitProgress
from penstock.errors import ArgumentError, CheckpointError
from penstock.graph.task_id import TaskId

MAX_PROBLEMS = 5


class PendingCheckpoint:
    """A pending checkpoint, based on the last completed one.

    `pipelined`: pipelined mode. Its tasks have run since the last restore, may have taken snapshots for aborted
    checkpoints, and
    continue from those.
    """

    def __init__(
        self,
        plan: TriggerCheckpoint,
        base: Manifest | None,
        pending: Mapping[str, Any],
        *,
        pipelined: bool = False,
    ) -> None:
        # The plan never changes.
        self.plan = plan
        # The checkpoint before this one. In pipelined mode another may complete in between: see `rebase`.
        self.base = base
        # Return values of the base's committers; every operator in it is a committer of the plan.
        self.pending = dict(pending)
        # Parallelism by vertex; all operators of a vertex agree on it.
        self.parallelism = _check_plan(plan, base, pending)
        # Acks by task, in order of arrival; exactly one each is needed to complete.
        self.acks: dict[TaskId, list[Ack]] = {}
        self._pipelined = pipelined
        # Tasks may share files with any checkpoint that is in force between the trigger and their snapshots.
        self._shared = frozenset() if base is None else base.files()

    def add(self, ack: Ack) -> None:
        """Add an ack. It is validated once all are in. A duplicate from a pipelined task is ignored."""
        acks = self.acks.setdefault(ack.task, [])
        if not (self._pipelined and any(ack.attempt == other.attempt for other in acks)):
            acks.append(ack)

    @property
    def is_acknowledged(self) -> bool:
        """Whether all tasks have acknowledged."""
        return self.acks.keys() >= self.plan.expected

    @property
    def acknowledged_ms(self) -> int:
        """When the last ack arrived."""
        return max((ack.now_ms for acks in self.acks.values() for ack in acks), default=0)

    def share(self, completed: Manifest) -> None:
        """Record that another checkpoint completed in the meantime."""
        self._shared |= completed.files()

    def rebase(self, base: Manifest | None, pending: Mapping[str, Any]) -> None:
        """Rebase on the last completed checkpoint, before this one is completed."""
        self.base = base
        self.pending = dict(pending)

    def files(self) -> frozenset[str]:
        """Return the names of all state files that it may need, as far as known."""
        named = {
            name
            for acks in self.acks.values()
            for ack in acks
            for handle in _handles(ack)
            for name in handle.names()
        }
        return self._shared | named

    def problems(self) -> list[str]:
        """Return the reasons why this checkpoint must not complete."""
        found = [*self._miscounted()]
        if not found:
            for task in sorted(self.acks):
                ack = self.acks[task][0]
                found += self._mixed_attempts(ack)
                found += self._wrong_contents(ack)
        return found

    def _miscounted(self) -> list[str]:
        expected, came = self.plan.expected, self.acks.keys()
        found = [f"{task} did not acknowledge the checkpoint" for task in sorted(expected - came)]
        found += [f"{task} acknowledged but was not expected" for task in sorted(came - expected)]
        found += [
            f"{task} acknowledged {len(acks)} times, as attempts {', '.join(a.attempt for a in acks)}"
            for task, acks in sorted(self.acks.items())
            if len(acks) > 1 and task in expected
        ]
        return found

    def _mixed_attempts(self, ack: Ack) -> list[str]:
        found = []
        for channel in ack.upstream:
            sender = self.acks.get(channel.upstream)
            if sender is None:
                found.append(
                    f"{ack.task} received data from {channel.upstream}, which was not expected to run"
                )
            elif sender[0].attempt != channel.token:
                found.append(
                    f"{ack.task} received data from attempt {channel.token} of {channel.upstream}, but attempt "
                    f"{sender[0].attempt} acknowledged"
                )
        if self.plan.channels is not None:
            silent = self.plan.channels.get(ack.task, frozenset()) - {
                channel.upstream for channel in ack.upstream
            }
            found += [f"{ack.task} received no data from {upstream}" for upstream in sorted(silent)]
        return found

    def _wrong_contents(self, ack: Ack) -> list[str]:
        task, found = ack.task, []
        operators = {op.operator: op for op in self.plan.operators if op.vertex == task.vertex}
        found += [
            f"{task} acknowledged operator '{operator}', which it does not run"
            for operator in {**ack.states, **_committables(ack), **ack.splits}
            if operator not in operators
        ]
        found += [
            f"{task} carries committables of checkpoint {checkpoint_id}, which is not before this one"
            for checkpoint_id in ack.carried
            if checkpoint_id >= self.plan.checkpoint_id
        ]
        found += [
            f"{task} has committables of '{operator}', which has no committer"
            for operator in _committables(ack)
            if operator in operators and not operators[operator].committer
        ]
        found += [
            f"{task} reported splits of '{operator}', which has none assigned"
            for operator in ack.splits
            if operator in operators and operator not in self.plan.sources
        ]
        for operator, op in operators.items():
            before = self._chain_before(op, task.subtask)
            chain = ack.states.get(operator)
            if before is None and chain is None and self._had_state(operator):
                found.append(f"{task} lost the state of '{operator}' when its parallelism changed")
            elif before is not None and not self._follows(chain, before):
                found.append(
                    f"{task} did not start '{operator}' from the last completed checkpoint"
                )
        for operator, source in self.plan.sources.items():
            if operator in operators:
                found += _wrong_splits(ack, operator, source)
        return found

    def _follows(self, chain: StateChain | None, before: StateChain) -> bool:
        """Whether a task may have got from the base's state to this one.

        A pipelined task continues from its own last snapshot, whether or not that belongs to a completed checkpoint. So its
        chain need not be the base's with more deltas; but an omitted chain does not mean the base's.
        """
        if self._pipelined:
            return chain is not None or not before
        return chain is None or chain.continues(before)

    def _chain_before(self, op: OperatorPlan, subtask: int) -> StateChain | None:
        """Return the chain that the subtask started from, or None if it was merged from several by rescaling."""
        before = self.base.operators.get(op.operator) if self.base else None
        if before is None:
            return StateChain()
        return before.subtasks[subtask] if before.parallelism == op.parallelism else None

    def _had_state(self, operator: str) -> bool:
        before = self.base.operators.get(operator) if self.base else None
        return before is not None and before.is_stateful

    def commit_requests(self, now_ms: int) -> dict[str, CommitRequest]:
        """Return one request per committer, with committables in subtask order.

        Those of earlier aborted checkpoints come first. Everything handed over up to the base is already committed.
        """
        final = self.plan.flush or self._is_final()
        base_checkpoint_id = 0 if self.base is None else self.base.checkpoint_id
        checkpoint_ids = {
            checkpoint_id
            for acks in self.acks.values()
            for ack in acks
            for checkpoint_id in ack.carried
        }
        uncommitted = sorted(
            checkpoint_id for checkpoint_id in checkpoint_ids if checkpoint_id > base_checkpoint_id
        )
        requests = {}
        vertices = self._vertices()
        for op in self.plan.operators:
            if not op.committer:
                continue
            found = (self._ack(op.vertex, subtask) for subtask in range(op.parallelism))
            acks = [ack for ack in found if ack is not None]
            committables = [
                item
                for checkpoint_id in uncommitted
                for ack in acks
                for item in ack.carried.get(checkpoint_id, {}).get(op.operator, ())
            ]
            committables += [item for ack in acks for item in ack.committables.get(op.operator, ())]
            requests[op.operator] = CommitRequest(
                checkpoint_id=self.plan.checkpoint_id,
                committables=committables,
                final=final,
                now_ms=now_ms,
                pending=self.pending.get(op.operator),
                watermark=_lowest(ack.sink_times.get(op.operator) for ack in acks),
                ended=vertices[op.vertex].finished,
            )
        return requests

    def to_manifest(
        self, job_id: str, job_name: str, now_ms: int, requests: Mapping[str, CommitRequest]
    ) -> Manifest:
        """Return the manifest; only for a checkpoint without problems."""
        return Manifest(
            job_id=job_id,
            job_name=job_name,
            checkpoint_id=self.plan.checkpoint_id,
            created_ms=now_ms,
            vertices=self._vertices(),
            operators={op.operator: self._operator(op) for op in self.plan.operators},
            sources=self._sources(),
            commits={
                name: Pickled.of(request, f"the committables of '{name}'")
                for name, request in requests.items()
            },
            final=self._is_final(),
        )

    def _ack(self, vertex: str, subtask: int) -> Ack | None:
        acks = self.acks.get(TaskId(vertex, subtask))
        return acks[0] if acks else None

    def _is_final(self) -> bool:
        vertices = self._vertices().values()
        return bool(vertices) and all(vertex.finished for vertex in vertices)

    def _vertices(self) -> dict[str, VertexSnapshot]:
        vertices = {}
        for name, parallelism in self.parallelism.items():
            before = self.base.vertices.get(name) if self.base else None
            subtasks = []
            for subtask in range(parallelism):
                ack = self._ack(name, subtask)
                if ack is not None:
                    subtasks.append(
                        SubtaskSnapshot(
                            ack.watermark,
                            ack.finished,
                            ack.next_wakeup,
                            ack.attempt,
                            ack.local,
                            ack.in_flight,
                        )
                    )
                elif before is not None and before.parallelism == parallelism:
                    subtasks.append(before.subtasks[subtask])
                else:
                    subtasks.append(SubtaskSnapshot())
            vertices[name] = VertexSnapshot(tuple(subtasks))
        return vertices

    def _operator(self, op: OperatorPlan) -> OperatorSnapshot:
        chains = []
        for subtask in range(op.parallelism):
            ack = self._ack(op.vertex, subtask)
            chain = ack.states.get(op.operator) if ack else None
            if chain is None:
                chain = self._chain_before(op, subtask) or StateChain()
            chains.append(chain)
        return OperatorSnapshot(
            op.uid, op.name, op.vertex, op.max_parallelism, tuple(chains), op.description
        )

    def _sources(self) -> dict[str, SourceSnapshot]:
        sources = {}
        for op in self.plan.operators:
            planned = self.plan.sources.get(op.operator)
            if planned is None:
                if self.base is not None and op.operator in self.base.sources:
                    sources[op.operator] = self.base.sources[op.operator]
                continue
            what = f"the splits of '{op.operator}'"
            splits = []
            for subtask in range(op.parallelism):
                ack = self._ack(op.vertex, subtask)
                progress: tuple[SplitProgress, ...] = planned.splits.get(subtask, ())
                if ack is not None:
                    progress = tuple(ack.splits.get(op.operator, ()))
                splits.append(Pickled.of(progress, what))
            enumerator = Pickled.of(planned.enumerator, f"the enumerator of '{op.operator}'")
            sources[op.operator] = SourceSnapshot(enumerator, tuple(splits), planned.complete)
        return sources


def _lowest(times: Iterable[tuple[int, bool] | None]) -> int:
    """Return the lowest watermark of the subtasks of a sink, except idle ones.

    >>> _lowest([(5, False), (3, False), (1, True)]), _lowest([(5, True), (1, True)])
    (3, 5)
    """
    known = [time for time in times if time is not None]
    active = [watermark for watermark, idle in known if not idle]
    if active:
        return min(active)
    return max((watermark for watermark, _ in known), default=MIN_WATERMARK)


def _handles(ack: Ack) -> Iterator[StateHandle]:
    for chain in ack.states.values():
        yield from chain
    if ack.in_flight is not None:
        yield ack.in_flight


def _committables(ack: Ack) -> dict[str, tuple[Any, ...]]:
    """Return the operators that an ack has committables for, including carried ones."""
    carried = {name: items for by_name in ack.carried.values() for name, items in by_name.items()}
    return {**carried, **ack.committables}


def _wrong_splits(ack: Ack, operator: str, source: SourcePlan) -> list[str]:
    assigned = sorted(p.split.split_id for p in source.splits.get(ack.task.subtask, ()))
    reported = sorted(p.split.split_id for p in ack.splits.get(operator, ()))
    if assigned == reported:
        return []
    return [f"{ack.task} was assigned the splits {assigned} but reported {reported}"]


def _check_plan(
    plan: TriggerCheckpoint, base: Manifest | None, pending: Mapping[str, Any]
) -> dict[str, int]:
    """Reject a plan that cannot complete; return the parallelism of its vertices."""
    parallelism: dict[str, int] = {}
    operators: dict[str, OperatorPlan] = {}
    for op in plan.operators:
        if op.operator in operators:
            raise ArgumentError(f"duplicate operator id '{op.operator}'")
        operators[op.operator] = op
        if parallelism.setdefault(op.vertex, op.parallelism) != op.parallelism:
            raise ArgumentError(f"the operators of vertex '{op.vertex}' have different parallelism")
    unknown = [t for t in plan.expected if not 0 <= t.subtask < parallelism.get(t.vertex, 0)]
    if unknown:
        raise ArgumentError(f"unknown task {min(unknown)} in the checkpoint plan")
    for operator, source in plan.sources.items():
        if operator not in operators:
            raise ArgumentError(f"unknown source '{operator}' in the checkpoint plan")
        _check_splits(operators[operator], source)
    for operator, waiting in pending.items():
        if waiting is not None and not (operator in operators and operators[operator].committer):
            raise CheckpointError(
                f"sink '{operator}' has uncommitted output in the checkpoint, but the job has no such sink",
                hint="give the sink the uid that it had, or let the old job finish first",
            )
    if base is not None:
        for op in plan.operators:
            _check_against_base(op, plan, base)
    return parallelism


def _check_splits(op: OperatorPlan, source: SourcePlan) -> None:
    owners: dict[str, int] = {}
    for subtask, splits in source.splits.items():
        if not 0 <= subtask < op.parallelism:
            raise ArgumentError(
                f"source '{op.operator}' has splits for subtask {subtask}, which does not exist"
            )
        for progress in splits:
            if owners.setdefault(progress.split.split_id, subtask) != subtask:
                raise ArgumentError(
                    f"split '{progress.split.split_id}' of '{op.operator}' has two owners"
                )


def _check_against_base(op: OperatorPlan, plan: TriggerCheckpoint, base: Manifest) -> None:
    before = base.operators.get(op.operator)
    if before is None:
        return
    if before.is_stateful and before.max_parallelism != op.max_parallelism:
        raise CheckpointError(
            f"operator '{op.operator}' has max parallelism {op.max_parallelism}, but its state was written with "
            f"{before.max_parallelism}",
            hint=f"set the max parallelism to {before.max_parallelism}: it cannot change once there is state",
        )
    if before.parallelism == op.parallelism:
        return
    idle = {TaskId(op.vertex, i) for i in range(op.parallelism)} - plan.expected
    if idle:
        raise ArgumentError(
            f"the parallelism of '{op.operator}' changes, but {min(idle)} is not expected to run",
            hint="after a rescale all subtasks must run for an epoch",
        )
    if op.operator in base.sources and op.operator not in plan.sources:
        raise ArgumentError(
            f"the parallelism of source '{op.operator}' changes, but its splits were not reassigned"
        )
