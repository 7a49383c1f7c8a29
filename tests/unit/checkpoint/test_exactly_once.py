"""Random epochs, failures, crashes and restores against a model of what exactly-once means.

The world below is a small job: a source counts 0, 1, 2, ... and reads a random number of values in each attempt of an
epoch, so an attempt that runs again reads something else. Two subtasks keep the values they saw as state and write them
to a sink, which publishes one value late. The world carries out instructions and may fail at any of them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.checkpoint.coordinator import CheckpointCoordinator, CoordinatorPhase
from penstock.checkpoint.handles import StateChain, checkpoint_id_of_file
from penstock.checkpoint.manifest import decode, encode
from penstock.checkpoint.messages import (
    Ack,
    Channel,
    CommitFailed,
    CommitFinished,
    CommitSink,
    DeleteCheckpoint,
    DeleteFiles,
    FailExecution,
    ManifestFailed,
    ManifestWritten,
    PipeFinished,
    RestoreCheckpoint,
    RunPipe,
    SourcePlan,
    TaskFailed,
    TriggerCheckpoint,
    WriteManifest,
)
from penstock.checkpoint.retention import orphaned
from tests.builders.checkpoint_builders import (
    OPERATORS,
    READ,
    SUM0,
    SUM1,
    delta,
    file_of,
    full,
    progress,
)
from tests.builders.examples import examples

FAULTS = [
    "none",
    "task fails",
    "source runs again",
    "source runs again for one receiver",
    "ack lost",
    "ack twice",
    "crash in the pipe",
    "crash before the manifest",
    "error before the manifest",
    "error after the manifest",
    "crash after the manifest",
    "error before the commit",
    "error after the commit",
    "crash before the commit",
    "crash after the commit",
    "crash in retention",
]


class CrashError(Exception):
    """The driver process is gone."""


@dataclass
class Step:
    """What happens in one epoch."""

    count: int  # values that the source reads
    compact: bool  # whether the state is written as a full snapshot
    fault: str
    restore_fault: str  # what goes wrong in the first restore after the fault
    final: bool = False


@dataclass
class World:
    """Storage and the outside world: what is in here survives a crash."""

    retained: int
    manifests: dict[int, bytes] = field(default_factory=dict)
    files: dict[str, list[int]] = field(default_factory=dict)  # a state file and the values it adds
    published: dict[int, list[int]] = field(default_factory=dict)  # by epoch
    attempts: itertools.count = field(default_factory=itertools.count)
    deletions_until_crash: int | None = None

    def durable(self):
        return [
            decode(self.manifests[checkpoint_id], "x") for checkpoint_id in sorted(self.manifests)
        ]

    def check_files(self):
        for manifest in self.durable():
            assert manifest.files() <= self.files.keys(), (
                f"chk-{manifest.checkpoint_id} lost a file"
            )

    def commit(self, request):
        """Publish all but the last value; the last one waits for the next epoch, unless there is none."""
        assert request.checkpoint_id in self.manifests, "a commit before its manifest is durable"
        values = [*(request.pending or []), *request.committables]
        kept = [] if request.final else values[-1:]
        ready = values[: len(values) - len(kept)]
        assert self.published.setdefault(request.checkpoint_id, ready) == ready, (
            "a commit changed its mind"
        )
        return kept or None

    def delete(self, instruction):
        if self.deletions_until_crash is not None:
            if self.deletions_until_crash == 0:
                self.deletions_until_crash = None
                raise CrashError
            self.deletions_until_crash -= 1
        if isinstance(instruction, DeleteCheckpoint):
            del self.manifests[instruction.checkpoint_id]
        else:
            for name in instruction.names:
                self.files.pop(name)
        self.check_files()


class Driver:
    """The shell around a coordinator: one process, which may crash."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.coordinator = CheckpointCoordinator("job", "a job", retained=world.retained)

    def carry_out(self, instructions, fault, step=None):
        """Carry out instructions and everything that follows from them; return whether all went well."""
        world, handle = self.world, self.coordinator.handle
        todo = list(instructions)
        while todo:
            instruction = todo.pop(0)
            match instruction:
                case RunPipe(checkpoint_id):
                    todo += self.run_pipe(checkpoint_id, step, fault)
                case WriteManifest(manifest):
                    if fault == "crash before the manifest":
                        raise CrashError
                    if fault == "error before the manifest":
                        todo += handle(ManifestFailed(manifest.checkpoint_id, "down"))
                        continue
                    world.manifests[manifest.checkpoint_id] = encode(manifest)
                    world.check_files()
                    if fault == "crash after the manifest":
                        raise CrashError
                    if fault == "error after the manifest":
                        todo += handle(ManifestFailed(manifest.checkpoint_id, "timeout"))
                        continue
                    todo += handle(ManifestWritten(manifest.checkpoint_id))
                case CommitSink(operator, request):
                    if fault == "crash before the commit":
                        raise CrashError
                    if fault == "error before the commit":
                        todo += handle(CommitFailed(operator, request.checkpoint_id, "down"))
                        continue
                    pending = world.commit(request)
                    if fault == "crash after the commit":
                        raise CrashError
                    if fault == "error after the commit":
                        todo += handle(CommitFailed(operator, request.checkpoint_id, "timeout"))
                        continue
                    todo += handle(CommitFinished(operator, request.checkpoint_id, pending))
                case DeleteCheckpoint() | DeleteFiles():
                    world.delete(instruction)
                case FailExecution():
                    return False
        return True

    def start(self, step):
        base, checkpoint_id = self.coordinator.base, self.coordinator.next_checkpoint_id
        splits = base.sources["source"].load_splits(0) if base else (progress("s", 0),)
        plan = TriggerCheckpoint(
            checkpoint_id,
            OPERATORS,
            frozenset({READ, SUM0, SUM1}),
            now_ms=checkpoint_id,
            sources={"source": SourcePlan("seen", {0: splits})},
            channels={SUM0: frozenset({READ}), SUM1: frozenset({READ})},
        )
        return self.coordinator.handle(plan)

    def run_pipe(self, checkpoint_id, step, fault):
        base = self.coordinator.base
        position = base.sources["source"].load_splits(0)[0].position if base else 0

        def read(count):
            return f"t{next(self.world.attempts)}", position + count

        first, second = read(step.count), read(step.count + 1)
        token, end = second if fault == "source runs again" else first
        acks = [
            Ack(
                checkpoint_id,
                READ,
                token,
                splits={"source": (progress("s", end),)},
                finished=step.final,
            )
        ]
        for task in (SUM0, SUM1):
            seen_token, seen_end = token, end
            if fault == "source runs again for one receiver" and task == SUM1:
                seen_token, seen_end = second
            values = [v for v in range(position, seen_end) if v % 2 == task.subtask]
            acks.append(self.sum(checkpoint_id, task, values, seen_token, step))
            if fault == "task fails" and task == SUM0:
                return self.coordinator.handle(TaskFailed(checkpoint_id, "ValueError", SUM0))
        if fault == "crash in the pipe":
            raise CrashError
        if fault == "ack lost":
            acks.pop()
        if fault == "ack twice":
            acks.append(acks[-1])
        for one in acks:
            assert self.coordinator.handle(one) == []
        return self.coordinator.handle(PipeFinished(checkpoint_id, checkpoint_id))

    def sum(self, checkpoint_id, task, values, seen_token, step):
        world, base = self.world, self.coordinator.base
        before = base.operators["total"].subtasks[task.subtask] if base else StateChain()
        attempt = f"t{next(world.attempts)}"
        name = file_of(checkpoint_id, task, attempt)
        if step.compact or not before:
            world.files[name] = [v for old in before.files() for v in world.files[old]] + values
            chain = before.append(full(name))
        else:
            world.files[name] = values
            chain = before.append(delta(name))
        return Ack(
            checkpoint_id,
            task,
            attempt,
            upstream=(Channel(READ, seen_token),),
            states={"total": chain},
            committables={"sink": tuple(values)},
            finished=step.final,
        )

    def restore(self, fault):
        durable = tuple(self.world.durable())
        restore = RestoreCheckpoint(durable[-1] if durable else None, durable)
        return self.carry_out(self.coordinator.handle(restore), fault)


def run(world, steps):
    """Run the steps; each is tried again, without its fault, until its epoch is complete."""
    driver = Driver(world)

    def survive(action, fault):
        nonlocal driver
        try:
            return action(fault)
        except CrashError:
            driver = Driver(world)
            return False

    for step in steps:
        checkpoint_id = driver.coordinator.next_checkpoint_id
        world.deletions_until_crash = 1 if step.fault == "crash in retention" else None
        well = survive(lambda fault: driver.carry_out(driver.start(step), fault, step), step.fault)
        restore_fault = step.restore_fault
        while not well or driver.coordinator.next_checkpoint_id == checkpoint_id:
            if not well:
                well = survive(lambda fault: driver.restore(fault), restore_fault)
                restore_fault = "none"
            elif driver.coordinator.phase is CoordinatorPhase.IDLE:
                well = driver.carry_out(driver.start(step), "none", step)
        world.deletions_until_crash = None
        world.check_files()
        check_state_and_output(world)
    return driver


def check_state_and_output(world):
    """Everything that was read is in the state once, and published once (but for the value that waits)."""
    newest = world.durable()[-1]
    end = newest.sources["source"].load_splits(0)[0].position
    in_state = Counter(
        value
        for chain in newest.operators["total"].subtasks
        for name in chain.files()
        for value in world.files[name]
    )
    assert in_state == Counter(range(end))
    assert sorted(world.published) == list(range(1, newest.checkpoint_id + 1))
    out = Counter(value for values in world.published.values() for value in values)
    missing = Counter(range(end)) - out
    assert not out - Counter(range(end)), "published twice, or something that was never read"
    assert missing.total() <= (0 if newest.final else 1)


steps = st.lists(
    st.builds(
        Step,
        st.integers(0, 3),
        st.booleans(),
        st.sampled_from(FAULTS),
        st.sampled_from([f for f in FAULTS if "commit" in f] + ["none"]),
    ),
    min_size=1,
    max_size=8,
)


@given(steps, st.integers(1, 3))
@settings(max_examples=examples(400), deadline=None)
def test_whatever_fails_every_value_is_in_the_state_once_and_in_the_output_once(plan, retained):
    plan[-1].final = True
    world = World(retained)
    driver = run(world, plan)
    assert driver.coordinator.phase is CoordinatorPhase.FINISHED
    assert len(world.manifests) <= retained
    # What is left besides the files in use are orphans, and the sweeper finds exactly those.
    needed = set().union(*(manifest.files() for manifest in world.durable()))
    assert set(orphaned(world.files, world.durable())) == world.files.keys() - needed
    assert all(checkpoint_id_of_file(name) is not None for name in world.files)


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_alone_is_survived(fault):
    world = World(1)
    steps = [
        Step(3, False, "none", "none"),
        Step(3, False, fault, "none"),
        Step(2, True, "none", "none"),
    ]
    run(world, steps)
    assert world.durable()[-1].checkpoint_id == 3


def test_without_a_fault_nothing_is_left_over():
    world = World(1)
    run(world, [Step(2, i % 3 == 0, "none", "none") for i in range(7)])
    assert world.files.keys() == set(world.durable()[-1].files())
    assert list(world.manifests) == [7]
