"""The checkpoints of one subtask in the loop of a slot: incoming barriers, snapshots, in-flight data."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from penstock.graph.stage import StageDeployment
from penstock.runtime.network.channels import BufferOrEvent, InputChannel, Inputs
from penstock.runtime.network.messages import BARRIER, BarrierFigures, BarrierMessage
from penstock.runtime.task.pipelined.barrier_handlers import (
    AbandonCheckpoint,
    BeginCheckpoint,
    BlockChannel,
    Channel,
    CompleteInFlight,
    Decision,
    DropInFlight,
    ExpediteBarriers,
)
from penstock.runtime.task.pipelined.slot_messages import DeclineCheckpoint, TriggerBarrier
from penstock.runtime.task.pipelined.unaligned_barrier_handler import create_barriers
from penstock.runtime.task.pipelined.unaligned_snapshots import UnalignedSnapshots
from penstock.runtime.task.pipelined.unconfirmed_committables import UnconfirmedCommittables
from penstock.runtime.task.pipelined.uploads import Upload
from penstock.runtime.task.shared.environment import TaskEnvironment
from penstock.runtime.task.shared.in_flight import Capture
from penstock.runtime.task.shared.subtask import Subtask
from penstock.time.clock import now


class CheckpointServices(Protocol):
    """Services of a slot for the checkpoints of its subtasks."""

    def report(self, message: Any) -> None:
        """Send a report to the driver."""

    def upload(self, upload: Upload) -> None:
        """Write a snapshot in the background."""


class TaskCheckpoints:
    """Executes the decisions about barriers: blocks channels, takes snapshots, forwards barriers."""

    def __init__(
        self, subtask: Subtask, inputs: Inputs, stage: StageDeployment, slot: CheckpointServices
    ) -> None:
        self._subtask = subtask
        self._inputs = inputs
        #: After it, a barrier that is not aligned overtakes records.
        self._timeout_ms = stage.barriers.aligned_timeout_ms
        self._slot = slot
        #: Decides about every barrier, and nothing else does.
        self._barriers = create_barriers(list(subtask.gates.channels), stage.barriers)
        inputs.announces = self._barriers.may_overtake
        #: Snapshots whose in-flight data is incomplete. Uploads stay in order: later ones wait behind these.
        self._held = UnalignedSnapshots(subtask.edges, slot.upload)
        #: Channels whose records belong to snapshots because their barriers have not arrived, and those snapshots.
        self.in_flight = self._barriers.in_flight
        #: A committable is sent with every ACK until a checkpoint that has it is complete: an aborted one loses none.
        self._unconfirmed = UnconfirmedCommittables()
        #: Bytes received when the first barrier of a checkpoint arrived, by checkpoint id.
        self._bytes_before: dict[int, int] = {}

    def begin_interval(self, environment: TaskEnvironment) -> None:
        """Begin the interval that ends with the next checkpoint."""
        self._environment = environment
        self._subtask.begin_interval(environment)

    # Barriers.

    def begin_triggered(self, trigger: TriggerBarrier) -> None:
        """Start a checkpoint in a source."""
        moment = now() * 1000
        due = trigger.triggered_ms + self._timeout_ms
        overtakes = self._barriers.may_overtake and not trigger.aligned and moment >= due
        begin = BeginCheckpoint(trigger.checkpoint, {}, moment, moment, overtakes)
        self._begin(begin, trigger.triggered_ms, aligned=trigger.aligned)
        self._held.complete(trigger.checkpoint)

    def keep(self, channel: Channel, item: BufferOrEvent) -> None:
        """Add records to the in-flight data of the snapshots that they belong to."""
        for checkpoint in self.in_flight[channel]:
            self._held.take(checkpoint, channel, [item])

    def on_barrier(self, channel: InputChannel, message: BarrierMessage, overtakes: bool) -> None:
        """Handle a barrier from a channel."""
        moment, name = now() * 1000, channel.id[2:]
        overtaken = channel.overtaken() if overtakes else []
        before_it = self._bytes_before.setdefault(message.checkpoint, self._inputs.bytes_in)
        decisions = self._barriers.on_barrier(name, message, moment, overtakes=overtakes)
        begin = next((each for each in decisions if isinstance(each, BeginCheckpoint)), None)
        before = decisions[: decisions.index(begin) + 1] if begin is not None else []
        self._decide(before)
        # Now its snapshot exists, if it has started at all.
        sender, processed = self._subtask.gates.channels[name], self._inputs.bytes_in - before_it
        self._held.barrier(sender, message, moment, processed)
        self._held.take(message.checkpoint, name, overtaken)
        self._decide(decisions[len(before) :])

    def _decide(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, BeginCheckpoint):
                message = next(iter(decision.barriers.values()))
                self._begin(decision, message.triggered_ms, aligned=message.aligned)
            elif isinstance(decision, BlockChannel):
                self._inputs.channels[decision.channel].block()
            elif isinstance(decision, AbandonCheckpoint):
                self._slot.report(
                    DeclineCheckpoint(
                        decision.checkpoint, self._subtask.id, decision.reason, failed=False
                    )
                )
            elif isinstance(decision, ExpediteBarriers):
                self._expedite(decision.checkpoint)
            elif isinstance(decision, CompleteInFlight):
                self._held.complete(decision.checkpoint)
            elif isinstance(decision, DropInFlight):
                self._held.drop(decision.checkpoint)
            else:
                self._inputs.unblock_all()
        self.in_flight = self._barriers.in_flight

    # Overtaking barriers.

    @property
    def due_ms(self) -> float | None:
        """When a barrier times out, by the wall clock in milliseconds."""
        return None if self._inputs.moved else self._deadline_ms()

    def _deadline_ms(self) -> float | None:
        times = (self._barriers.deadline_ms, self._held.deadline_ms)
        return min((each for each in times if each is not None), default=None)

    def expedite(self, take: Callable[[InputChannel], None]) -> bool:
        """Let barriers overtake if their timeout is over, and take those that have; return whether there were any.

        None overtakes records that a rescale has moved: a checkpoint with moved and new records of one key, in two channels,
        would lose their order.
        """
        inputs = self._inputs
        if inputs.moved or not self._may_expedite():
            return False
        worked = self._expedite_due()
        for channel in inputs.urgent():
            take(channel)
            channel.offer()
            worked = True
        return self._held.check(now() * 1000) or worked

    def _may_expedite(self) -> bool:
        """Whether there are barriers that have overtaken records, or may do so."""
        if not self._barriers.may_overtake:
            return False
        inputs = self._inputs
        return (
            bool(inputs.announced or inputs.priority_events or self._held)
            or self._deadline_ms() is not None
        )

    def _expedite_due(self) -> bool:
        """Let barriers overtake whose timeout is over; return whether there were any."""
        moment, inputs, due = now() * 1000, self._inputs, self._deadline_ms()
        announced, inputs.announced = inputs.announced, []
        decisions = [
            decision
            for item in announced
            for decision in self._barriers.on_announced(_message_of(item), moment)
        ]
        if due is not None and moment >= due:
            decisions += self._barriers.on_time(moment)
        self._decide(decisions)
        return bool(decisions)

    def _expedite(self, checkpoint: int) -> None:
        """Let barriers overtake in the queues of the input channels."""
        for channel in self._inputs.channels.values():
            channel.expedite(
                lambda item: item.kind == BARRIER and _message_of(item).checkpoint == checkpoint
            )

    # Snapshots.

    def _begin(self, begin: BeginCheckpoint, triggered_ms: int, *, aligned: bool) -> None:
        """Take the snapshot, forward the barrier, and continue with the next interval."""
        begun = time.perf_counter()
        number = begin.checkpoint
        barrier_alignment = self._subtask.gates.barrier_alignment
        for channel, message in begin.barriers.items():
            barrier_alignment.on_barrier(channel, message)
        capture = Capture(self._subtask.deployment)
        snapshot = self._subtask.begin_checkpoint(
            number,
            triggered_ms,
            aligned=aligned,
            overtaken=capture if begin.unaligned else None,
        )
        self.begin_interval(replace(self._environment, checkpoint_id=number + 1))
        figures = BarrierFigures(
            start_delay_ms=max(begin.first_ms - triggered_ms, 0.0),
            alignment_ms=begin.last_ms - begin.first_ms,
            sync_ms=(time.perf_counter() - begun) * 1000,
            processed_in_flight=self._inputs.bytes_in
            - self._bytes_before.get(number, self._inputs.bytes_in),
        )
        snapshot = replace(snapshot, ack=self._unconfirmed.passed(number, snapshot.ack))
        upload = Upload(number, self._subtask, snapshot, figures)
        if not self._barriers.may_overtake:
            self._slot.upload(upload)
            return
        # A barrier that did not overtake may be stuck behind records in the output channels.
        expedite_at = None
        if not (begin.unaligned or aligned):
            expedite_at = float(triggered_ms + self._timeout_ms)
        self._held.hold(upload, capture, begin, expedite_at)

    def completed(self, checkpoint: int) -> None:
        """Release what was kept for a checkpoint."""
        self._unconfirmed.completed(checkpoint)
        self._bytes_before = {n: each for n, each in self._bytes_before.items() if n > checkpoint}

    def aborted(self, checkpoint: int) -> None:
        """Drop an aborted checkpoint."""
        self._bytes_before.pop(checkpoint, None)
        self._decide(self._barriers.on_aborted(checkpoint))
        self._held.drop(checkpoint)


def _message_of(item: BufferOrEvent) -> BarrierMessage:
    content = item.content
    message: BarrierMessage = pickle.loads(content) if type(content) is bytes else content
    return message
