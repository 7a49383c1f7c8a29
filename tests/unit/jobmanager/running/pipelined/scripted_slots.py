"""A pipelined driver whose slots are a script: no processes, no sockets, and no time but the test's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.common import WatermarkStrategy
from penstock.connectors.base.sink import Committer, Sink, SinkWriter
from penstock.connectors.base.source import SourceReader, SplitEnumerator
from penstock.graph.settings import GraphSettings
from penstock.graph.stage import ClusterCapacity, HeartbeatSettings, StageDeployment
from penstock.graph.task_id import TaskId
from penstock.jobmanager.checkpointing.checkpoint_statistics import CheckpointStatistics
from penstock.jobmanager.job_creation import create_job
from penstock.jobmanager.running.pipelined import driver as driver_module
from penstock.jobmanager.running.pipelined import stages as stages_module
from penstock.jobmanager.running.pipelined.driver import PipelinedDriver
from penstock.runtime.network.driver_endpoint import ConnectionLost, SlotMessage
from penstock.runtime.network.messages import TaskAck, TaskFailure
from penstock.runtime.task.pipelined.slot_messages import (
    AcknowledgeCheckpoint,
    Connect,
    DeclineCheckpoint,
    SlotFailed,
    SlotListening,
    SlotRunning,
    SlotTraced,
    StopSlot,
    TriggerBarrier,
)
from penstock.runtime.time.decisions import PackedRuns, SlotTrace
from penstock.savepoint.state_io import SnapshotStateIO
from tests.builders.endless import EndlessSource
from tests.builders.environments import configured

INTERVAL_S = 10.0


NOTES: list[Any] = []  # of committers, which are copies of what the program named
REFUSED: set[str] = set()  # the sinks whose commits fail


class Noting(Sink):
    """Notes what it commits, and what it abandons."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_writer(self, context: Any, restored: Any = None) -> SinkWriter:
        raise AssertionError("there are no real tasks here")

    def create_committer(self) -> Committer:
        return _Committer(self.name)


class _Committer(Committer):
    def __init__(self, name: str) -> None:
        self.name = name

    def commit(self, request: Any) -> None:
        if self.name in REFUSED:
            raise ConnectionError("the sink's system is away")
        kind = "publish" if request.final else "commit"
        NOTES.append((kind, self.name, request.checkpoint_id))

    def abandon(self, subtasks: Any, job_id: str) -> None:
        NOTES.append(("abandon", self.name, sorted(subtasks)))


class Numbers(EndlessSource):
    """Notes what its enumerators are restored from."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_enumerator(self, parallelism: int, restored: Any = None) -> SplitEnumerator:
        NOTES.append(("enumerate", self.name, restored))
        return super().create_enumerator(parallelism, restored)

    def create_reader(self) -> SourceReader:
        raise AssertionError("there are no real tasks here")


class Stage:
    """One attempt of a stage, as the cluster was asked to start it."""

    def __init__(
        self, slots: Slots, deployment: StageDeployment, on_end: Callable[..., None]
    ) -> None:
        self._slots = slots
        self.deployment = deployment
        self.token = deployment.attempt
        self.on_end = on_end
        self.cancelled = False
        self.ended = False
        self.obeys = True  # whether its slots end when they are told to leave
        self.reports_traces = True  # whether they report a final trace before

    @property
    def tasks(self) -> list[TaskId]:
        return list(self.deployment.placement)

    def end(self, error: BaseException | None = None) -> None:
        if not self.ended:
            self.ended = True
            self.on_end(error)

    # What the driver calls

    def cancel(self) -> None:
        self.cancelled = True
        self.end()

    def join(self, seconds: float) -> bool:
        if not self.ended:
            self._slots.now += seconds
        return self.ended


class Slots:
    """The cluster and the driver's endpoint in one: starts nothing, and answers as slots that do nothing would.

    `answers(stage, task, trigger)` returns what a task tells when a checkpoint is triggered, by default an ACK.
    """

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.heartbeat: HeartbeatSettings | None = None  # of the driver's connections
        self.sent: list[tuple[str, int, Any]] = []
        self.arrivals: list[SlotMessage] = []
        self.closed: list[str] = []
        self.answers: Callable[[Stage, TaskId, TriggerBarrier], Any] = self.ack
        self.starts = True  # whether slots begin to run when they are started
        self.now = 1000.0
        self.idle_turns = 0
        self.when_idle: list[Callable[[], object]] = []  # what happens next when nothing else does

    def stage_of(self, token: str) -> Stage:
        return next(stage for stage in self.stages if stage.token == token)

    def received(self, kind: type, stage: Stage | None = None) -> list[Any]:
        return [
            command
            for token, _, command in self.sent
            if isinstance(command, kind) and (stage is None or token == stage.token)
        ]

    def report(self, stage: Stage, message: Any, slot: int = 0) -> None:
        self.arrivals.append(SlotMessage(stage.token, slot, message))

    def fail(self, stage: Stage) -> None:
        failure = TaskFailure(stage.tasks[0], "boom", None, "Traceback", None)
        self.report(stage, SlotFailed(0, failure))

    def ack(self, stage: Stage, task: TaskId, trigger: TriggerBarrier) -> Any:
        assignment = stage.deployment.assignments.get(task)
        progress = None if assignment is None else assignment.splits
        return AcknowledgeCheckpoint(
            trigger.checkpoint, TaskAck(task, stage.token, {}, {}, b"", progress=progress)
        )

    def decline(self, stage: Stage, task: TaskId, trigger: TriggerBarrier) -> Any:
        return DeclineCheckpoint(trigger.checkpoint, task, "not now")

    # The cluster

    def capacity(self, demand: Any, interrupted: Callable[[], bool]) -> ClusterCapacity:
        return ClusterCapacity(None)

    def host(self) -> str:
        return "driver"

    def listens_at(self) -> str:
        return "driver"

    def start_stage(self, job_id: str, name: str, deployment: Any, on_end: Any) -> Stage:
        stage = Stage(self, deployment, on_end)
        self.stages.append(stage)
        if self.starts:
            for slot in range(deployment.slots):
                self.report(stage, SlotListening(slot, f"tcp://{slot}", 1), slot)
        return stage

    # The endpoint

    def open_stage(self, token: str, keys: Any) -> str:
        return f"tcp://driver/{token}"

    def close_stage(self, token: str) -> None:
        self.closed.append(token)

    def poll(self, seconds: float) -> list[SlotMessage]:
        arrivals, self.arrivals = self.arrivals, []
        if not arrivals:
            self.now += seconds
            self.idle_turns += 1
            assert self.idle_turns < 1000, "nothing happens any more"
            if self.when_idle:
                self.when_idle.pop(0)()
        return arrivals

    def send(self, token: str, slot: int, command: Any) -> None:
        self.sent.append((token, slot, command))
        stage = self.stage_of(token)
        if isinstance(command, Connect):
            self.report(stage, SlotRunning(slot, 1, "host"), slot)
        elif isinstance(command, StopSlot) and stage.obeys:
            if command.failed and stage.reports_traces:
                self.report(stage, SlotTraced(slot, SlotTrace(-1, -1, PackedRuns(), ())), slot)
            self.report(stage, ConnectionLost(), slot)
            stage.end()
        elif isinstance(command, TriggerBarrier):
            for task, where in stage.deployment.placement.items():
                if where == slot and (answer := self.answers(stage, task, command)) is not None:
                    self.report(stage, answer, slot)

    def ask(self, token: str, slot: int, question: Any) -> bool:
        return True

    def wake(self) -> None:
        pass

    def close(self) -> None:
        pass


class Watching:
    """The driver's listener, and who interrupts it: when nothing has happened for some turns."""

    cancelled = False

    def __init__(self, slots: Slots) -> None:
        self.statistics = CheckpointStatistics()
        self.deployed: list[set[TaskId]] = []
        self._slots = slots
        self.patience = 3

    def on_deploy(self, tasks: Any = None) -> None:
        self.deployed.append(set(tasks))

    def on_completed(self, span: Any) -> None:
        self.span = span

    def on_running(self, tasks: Any, at_ms: int | None = None) -> None:
        pass

    def on_trigger(self, checkpoint_id: int) -> None:
        pass

    def on_ack(self, checkpoint_id: int, ack: Any) -> None:
        pass

    def on_report(self, report: Any) -> None:
        self.reported = report

    def interrupted(self) -> bool:
        return self._slots.idle_turns >= self.patience

    def on_interrupt(self, wake: Callable[[], None]) -> None:
        pass


class Scripted:
    """A job of two regions, each a source with a sink, in the hands of a driver."""

    def __init__(self, directory: Path, options: dict[str, str], parallelism: int) -> None:
        self.slots = Slots()
        env = configured(
            {
                "execution.checkpointing.interval": f"{INTERVAL_S:g} s",
                "execution.checkpointing.dir": str(directory),
                "execution.checkpointing.num-retained": "10",
                **options,
            },
            parallelism,
        )
        for name in "ab":
            numbers = env.from_source(Numbers(name), WatermarkStrategy.no_watermarks(), name)
            numbers.uid(f"source-{name}").sink_to(Noting(name)).uid(f"sink-{name}")
        job = create_job(
            env._transformations,
            GraphSettings(parallelism=parallelism),
            env.get_configuration(),
            "",
        )
        self.store = ManifestStore(CheckpointFileSystem(job.checkpoints.directory), job.job_id)
        self.watching = Watching(self.slots)
        cluster: Any = self.slots
        self.driver = PipelinedDriver(
            job, self.store, SnapshotStateIO(self.store.storage.base, 1000),
            cluster, self.watching, self.watching,
        )  # fmt: skip

    def start(self) -> tuple[Stage, Stage]:
        """Start the job, and return its two stages."""
        self.driver.restore(None, attempt=0, at_once=False)
        first, second = self.slots.stages
        return first, second

    def advance(self) -> bool:
        """Run on to the next checkpoint; False if there comes none though its time passes."""
        self.slots.idle_turns = 0
        self.watching.patience = int(2 * INTERVAL_S) + 5
        return self.driver.advance(None)


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Scripted]]:
    made: list[Scripted] = []
    NOTES.clear()
    REFUSED.clear()

    def make(parallelism: int = 1, **options: str) -> Scripted:
        found = Scripted(tmp_path / "checkpoints", options, parallelism)
        made.append(found)
        times = SimpleNamespace(monotonic=lambda: found.slots.now, sleep=lambda _: None)
        monkeypatch.setattr(driver_module, "time", times)
        # The slots are deployed with the splits of the first look, however long it takes.
        monkeypatch.setattr(driver_module, "_FIRST_LOOK_S", 240.0)
        monkeypatch.setattr(stages_module, "time", times)

        def endpoint(host: str, heartbeat: HeartbeatSettings, listen_at: str | None) -> Slots:
            found.slots.heartbeat = heartbeat
            return found.slots

        monkeypatch.setattr(stages_module, "DriverEndpoint", endpoint)
        return found

    yield make
    for each in made:
        each.driver.close()


#: Options of a job that failed checkpoints do not fail.
TOLERANT = {"execution.checkpointing.tolerable-failed-checkpoints": "5"}


def silent(*_: object) -> None:
    """Answer nothing when a checkpoint is triggered."""
