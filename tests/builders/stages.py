"""Stages built by hand, whose slots run as threads, and a driver that tests tell what to say."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time

from penstock.graph.deployment import JobSettings
from penstock.graph.stage import BarrierSettings, NetworkSettings, StageDeployment
from penstock.graph.task_id import TaskId
from penstock.runtime.network.authentication import make_keys
from penstock.runtime.network.channels import BufferOrEvent, ChannelId, Inputs, LocalLink, Outputs
from penstock.runtime.network.driver_endpoint import ConnectionLost, DriverEndpoint
from penstock.runtime.task.pipelined.local_stage import run_stage_locally
from penstock.runtime.task.pipelined.pipelined_slot import SlotLoop, StopSignal
from penstock.runtime.task.pipelined.slot_messages import (
    AcknowledgeCheckpoint,
    ConfirmCheckpoint,
    Connect,
    SlotFailed,
    SlotListening,
    SlotRunning,
    SourceFinished,
    StopSlot,
    TriggerBarrier,
)
from tests.builders import pipes

_ATTEMPTS = itertools.count()
TIMEOUT_S = 120.0  # before a test fails instead of hanging


def stage(*vertices, slots=None, settings=None, elsewhere=None, **options):
    """Describe a stage: subtask i of every vertex is in slot i, except those whose slots are given."""
    widest = max(vertex.parallelism for vertex in vertices)
    values = {
        "stage": 0,
        "attempt": f"a{next(_ATTEMPTS)}",
        "attempt_number": 0,
        "next_checkpoint": 1,
        "restore": {},
        "assignments": {},
        "state_io": pipes.MemoryStateIO(),
        "staging": "/staging",
        "driver": "",
        "keys": make_keys(),
        "network": NetworkSettings(),
        "barriers": BarrierSettings(),
        **options,
    }
    for name in ("restore", "assignments"):
        values[name] = {TaskId(f"v{at}", subtask): v for (at, subtask), v in values[name].items()}
    return StageDeployment(
        settings=settings or JobSettings("job", "job"),
        slots=slots or widest,
        vertices=vertices,
        placement={
            vertex.task(index): index for vertex in vertices for index in range(vertex.parallelism)
        }
        | {TaskId(f"v{at}", subtask): slot for (at, subtask), slot in (elsewhere or {}).items()},
        **values,
    )


class Running:
    """A stage whose slots are threads; this thread is its driver."""

    def __init__(self, deployment):
        self.endpoint = DriverEndpoint("127.0.0.1", deployment.network.heartbeat)
        address = self.endpoint.open_stage(deployment.attempt, deployment.keys)
        self.deployment = dataclasses.replace(deployment, driver=address)
        self.reports = []
        self.listening = {}
        self._gone = set()
        self.stop = StopSignal()
        self._thread = threading.Thread(
            target=run_stage_locally, args=(self.deployment, self.stop), daemon=True
        )

    def __enter__(self):
        self._thread.start()
        self.until(lambda: len(self.listening) == self.deployment.slots)
        addresses = tuple(self.listening[slot] for slot in range(self.deployment.slots))
        self.send_to_all(Connect(addresses))
        self.until(lambda: len(self.of(SlotRunning)) == self.deployment.slots or self.failed)
        return self

    def __exit__(self, *_):
        self.stop.set()
        self._thread.join(TIMEOUT_S)
        self.endpoint.close()
        assert not self._thread.is_alive()

    def tell(self, slot, command):
        self.endpoint.send(self.deployment.attempt, slot, command)

    def send_to_all(self, command):
        for slot in range(self.deployment.slots):
            self.tell(slot, command)

    def of(self, kind):
        return [report for report in self.reports if isinstance(report, kind)]

    @property
    def failed(self):
        return self.of(SlotFailed)

    def poll(self, seconds=0.05):
        for arrival in self.endpoint.poll(seconds):
            if isinstance(arrival.message, SlotListening):
                self.listening[arrival.slot] = arrival.message.address
            elif isinstance(arrival.message, ConnectionLost):
                self._gone.add(arrival.slot)
            else:
                self.reports.append(arrival.message)

    def until(self, condition, seconds=TIMEOUT_S):
        """Take reports until a condition holds; fail if a slot does, unless that is what is waited for."""
        end = time.monotonic() + seconds
        while not condition():
            self.poll()
            assert time.monotonic() < end, f"timeout; reports: {self.reports[-5:]}"

    def tasks(self):
        return len(self.deployment.placement)

    def acks(self, checkpoint):
        return {
            pipes.number_of(report.ack.task): report.ack
            for report in self.of(AcknowledgeCheckpoint)
            if report.checkpoint == checkpoint
        }

    def checkpoint(self, number, **options):
        """Trigger a checkpoint, wait for all ACKs, say that it is complete; return the ACKs."""
        self.send_to_all(TriggerBarrier(number, int(time.time() * 1000), **options))
        self.until(lambda: len(self.acks(number)) == self.tasks() or self.failed)
        assert not self.failed, self.failed
        self.send_to_all(ConfirmCheckpoint(number))
        return self.acks(number)

    def finished_sources(self):
        return {report.task for report in self.of(SourceFinished)}

    def leave(self):
        """Let all slots leave, and wait for their end."""
        self.send_to_all(StopSlot())
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()
        self.until(lambda: len(self._gone) == self.deployment.slots)  # after their last reports


class NoNetwork:
    """The network of a slot that is alone: nothing is sent, and there are no waits. Commands are put in, reports are taken out."""

    address = "nowhere"

    def __init__(self):
        self._links = {}
        self._commands = []
        self.reports = []
        self.waits = []

    def connect(self, addresses):
        pass

    def connect_driver(self, address, identity):
        pass

    def open_output(self, channel, target_slot, outputs):
        link = self._link(channel)
        link.attach_outputs(outputs)
        return link

    def open_input(self, channel, source_slot, inputs):
        receiver = self._link(channel).receiver
        receiver.attach(inputs)
        return receiver

    def _link(self, channel):
        return self._links.setdefault(channel, LocalLink(channel, Outputs(), Inputs()))

    def pump(self):
        return False

    def wait(self, seconds):
        self.waits.append(seconds)

    def wake(self):
        pass

    def watch(self, file, watched):
        pass

    def commands(self):
        commands, self._commands = self._commands, []
        return commands

    def tell(self, *commands):
        self._commands += commands

    def report(self, message):
        self.reports.append(message)

    def close(self):
        pass


class Stepped:
    """One slot whose loop makes its turns one by one."""

    def __init__(self, deployment):
        self.network = NoNetwork()
        self.loop = SlotLoop(deployment, 0, self.network, StopSignal())

    def __enter__(self):
        self.loop.open()
        return self

    def __exit__(self, *_):
        self.loop.abandon()

    def tell(self, *commands):
        """Say this before the next turn."""
        self.network.tell(*commands)

    def turn(self, times=1):
        """Make some turns; return how long the last one says that nothing is to be done."""
        for _ in range(times):
            seconds = self.loop.turn()
        return seconds

    def rest(self, turns=200):
        """Make turns until there is nothing to do; return for how long that is."""
        for _ in range(turns):
            if (seconds := self.loop.turn()) > 0:
                return seconds
        raise AssertionError("it does not come to rest")

    def put(self, vertex, source, kind, content, *, gate=0):
        """Let something arrive from a subtask of another slot."""
        self.task(vertex).inputs.channels[gate, source].put(BufferOrEvent(kind, content, 0))

    def sent(self, vertex, subtask=0, *, gate=0, source=0):
        """Take what was sent to a subtask of another slot, as (kind, content)."""
        receiver = self.network.open_input(ChannelId(vertex, subtask, gate, source), 1, Inputs())
        found = []
        while receiver.items:
            found.append(receiver.take()[:2])
        return found

    def task(self, vertex, subtask=0):
        return next(each for each in self.loop.tasks if each.id == TaskId(f"v{vertex}", subtask))

    def of(self, kind):
        return [report for report in self.network.reports if isinstance(report, kind)]

    def acks(self, checkpoint, count=None):
        """Return the ACKs of a checkpoint; wait for so many of them."""
        end = time.monotonic() + TIMEOUT_S
        while True:
            found = {
                pipes.number_of(each.ack.task): each.ack
                for each in self.of(AcknowledgeCheckpoint)
                if each.checkpoint == checkpoint
            }
            if count is None or len(found) >= count:
                return found
            assert time.monotonic() < end, "timeout while waiting for ACKs"
            time.sleep(0.001)  # the thread that writes snapshots
