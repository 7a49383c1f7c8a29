"""The checkpoints of one subtask in the loop of a slot: incoming barriers, snapshots, in-flight data."""

from __future__ import annotations

import pickle
import time
from dataclasses import replace
from typing import Any, Protocol

from penstock.common.clock import now
from penstock.graph.stage import StageDeployment
from penstock.runtime.network.channels import InputChannel, Inputs, Item
from penstock.runtime.network.messages import BARRIER, BarrierFigures, BarrierMessage
from penstock.runtime.task.barriers import (
    Abandon,
    Begin,
    Block,
    Channel,
    Complete,
    Decision,
    Drop,
    Hasten,
)
from penstock.runtime.task.environment import TaskEnvironment
from penstock.runtime.task.in_flight import Capture
from penstock.runtime.task.overtaking import HeldSnapshots
from penstock.runtime.task.stage_messages import Declined, Trigger
from penstock.runtime.task.subtask import Subtask
from penstock.runtime.task.unaligned import create_barriers
from penstock.runtime.task.unconfirmed import Unconfirmed
from penstock.runtime.task.uploads import Upload


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
        self._timeout_ms = stage.barriers.aligned_timeout_ms
        self._slot = slot
        self._barriers = create_barriers(list(subtask.gates.channels), stage.barriers)
        inputs.announces = self._barriers.may_overtake
        self._held = HeldSnapshots(subtask, slot.upload)
        # Channels whose records belong to snapshots because their barriers have not arrived, and those snapshots.
        self.in_flight = self._barriers.in_flight
        self._unconfirmed = Unconfirmed()
        # Bytes received when the first barrier of a checkpoint arrived, by checkpoint id.
        self._bytes_before: dict[int, int] = {}

    def begin_epoch(self, environment: TaskEnvironment) -> None:
        """Begin the interval that ends with the next checkpoint."""
        self._environment = environment
        self._subtask.begin_epoch(environment)

    # Barriers.

    def begin_triggered(self, trigger: Trigger) -> None:
        """Start a checkpoint in a source."""
        moment = now() * 1000
        due = trigger.triggered_ms + self._timeout_ms
        overtakes = self._barriers.may_overtake and not trigger.aligned and moment >= due
        begin = Begin(trigger.checkpoint, {}, moment, moment, overtakes)
        self._begin(begin, trigger.triggered_ms, aligned=trigger.aligned)
        self._held.complete(trigger.checkpoint)

    def keep(self, channel: Channel, item: Item) -> None:
        """Add records to the in-flight data of the snapshots that they belong to."""
        for checkpoint in self.in_flight[channel]:
            self._held.take(checkpoint, channel, [item])

    def on_barrier(self, channel: InputChannel, message: BarrierMessage, overtakes: bool) -> None:
        """Handle a barrier from a channel."""
        moment, name = now() * 1000, channel.id[2:]
        overtaken = channel.overtaken() if overtakes else []
        before_it = self._bytes_before.setdefault(message.checkpoint, self._inputs.bytes_in)
        decisions = self._barriers.on_barrier(name, message, moment, overtakes=overtakes)
        begin = next((each for each in decisions if isinstance(each, Begin)), None)
        before = decisions[: decisions.index(begin) + 1] if begin is not None else []
        self._decide(before)
        # Now its snapshot exists, if it has started at all.
        sender, processed = self._subtask.gates.channels[name], self._inputs.bytes_in - before_it
        self._held.barrier(sender, message, moment, processed)
        self._held.take(message.checkpoint, name, overtaken)
        self._decide(decisions[len(before) :])

    def _decide(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Begin):
                message = next(iter(decision.barriers.values()))
                self._begin(decision, message.triggered_ms, aligned=message.aligned)
            elif isinstance(decision, Block):
                self._inputs.channels[decision.channel].block()
            elif isinstance(decision, Abandon):
                self._slot.report(
                    Declined(decision.checkpoint, self._subtask.id, decision.reason, failed=False)
                )
            elif isinstance(decision, Hasten):
                self._hasten(decision.checkpoint)
            elif isinstance(decision, Complete):
                self._held.complete(decision.checkpoint)
            elif isinstance(decision, Drop):
                self._held.drop(decision.checkpoint)
            else:
                self._inputs.unblock_all()
        self.in_flight = self._barriers.in_flight

    # Overtaking barriers.

    @property
    def due_ms(self) -> float | None:
        """When a barrier times out, by the wall clock."""
        times = (self._barriers.deadline_ms, self._held.deadline_ms)
        return min((each for each in times if each is not None), default=None)

    @property
    def may_hurry(self) -> bool:
        """Whether there are barriers that have overtaken records, or may do so."""
        if not self._barriers.may_overtake:
            return False
        inputs = self._inputs
        return bool(inputs.announced or inputs.hurry or self._held) or self.due_ms is not None

    def hasten(self) -> bool:
        """Let barriers overtake whose timeout is over; return whether there were any."""
        moment, inputs, due = now() * 1000, self._inputs, self.due_ms
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

    def check_held(self) -> bool:
        """Let barriers overtake in the output channels if their timeout is over; return whether there were any."""
        return self._held.check(now() * 1000)

    def _hasten(self, checkpoint: int) -> None:
        """Let barriers overtake in the queues of the input channels."""
        for channel in self._inputs.channels.values():
            channel.hasten(
                lambda item: item.kind == BARRIER and _message_of(item).checkpoint == checkpoint
            )

    # Snapshots.

    def _begin(self, begin: Begin, triggered_ms: int, *, aligned: bool) -> None:
        """Take the snapshot, forward the barrier, and continue with the next interval."""
        begun = time.perf_counter()
        number = begin.checkpoint
        alignment = self._subtask.gates.alignment
        for channel, message in begin.barriers.items():
            alignment.on_barrier(channel, message)
        capture = Capture(self._subtask.deployment)
        snapshot = self._subtask.begin_checkpoint(
            number,
            triggered_ms,
            aligned=aligned,
            overtaken=capture if begin.unaligned else None,
        )
        self.begin_epoch(replace(self._environment, epoch=number + 1))
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
        hasten_at = None
        if not (begin.unaligned or aligned):
            hasten_at = float(triggered_ms + self._timeout_ms)
        self._held.hold(upload, capture, begin, hasten_at)

    def completed(self, checkpoint: int) -> None:
        """Release what was kept for a checkpoint."""
        self._unconfirmed.completed(checkpoint)
        self._bytes_before = {n: each for n, each in self._bytes_before.items() if n > checkpoint}

    def aborted(self, checkpoint: int) -> None:
        """Drop an aborted checkpoint."""
        self._bytes_before.pop(checkpoint, None)
        self._decide(self._barriers.on_aborted(checkpoint))
        self._held.drop(checkpoint)


def _message_of(item: Item) -> BarrierMessage:
    content = item.content
    message: BarrierMessage = pickle.loads(content) if type(content) is bytes else content
    return message
