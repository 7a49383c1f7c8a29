"""A job whose tasks stay, in a world in which anything may happen between any two steps. For property tests.

Two regions, each in a slot of its own: a source subtask that reads numbers, and a subtask that keeps them as state and hands them to a sink
that commits. Messages between the driver and a slot arrive in order, in both directions.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from dataclasses import dataclass, field

from penstock.checkpoint.coordinator import CheckpointCoordinator, CoordinatorPhase
from penstock.checkpoint.handles import SharedFile, StateChain, StateHandle
from penstock.checkpoint.manifest import decode, encode
from penstock.checkpoint.messages import (
    AbortCheckpoint,
    Ack,
    Channel,
    CheckpointRestored,
    CommitFailed,
    CommitFinished,
    CommitSink,
    DeleteCheckpoint,
    DeleteFiles,
    DeleteOrphans,
    FailExecution,
    ManifestFailed,
    ManifestWritten,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OperatorPlan,
    RestoreCheckpoint,
    SourcePlan,
    TriggerCheckpoint,
    TriggerSources,
    WriteManifest,
)
from penstock.checkpoint.retention import orphaned, unneeded_files
from penstock.graph.task_id import TaskId
from tests.builders.checkpoint_builders import delta, file_of, full, progress

REGIONS = (0, 1)
OPERATORS = (
    OperatorPlan("source", "numbers", "read", 2, 128),
    OperatorPlan("total", "total", "sum", 2, 128),
    OperatorPlan("sink", "files", "sum", 2, 128, committer=True),
)
EXPECTED = frozenset(TaskId(vertex, region) for vertex in ("read", "sum") for region in REGIONS)
CHANNELS = {TaskId("sum", region): frozenset({TaskId("read", region)}) for region in REGIONS}

FAULTS = (
    "crash before the manifest",
    "crash after the manifest",
    "error before the manifest",
    "error after the manifest",
    "crash before the commit",
    "crash after the commit",
    "error before the commit",
    "error after the commit",
    "crash in retention",
)


class CrashError(Exception):
    """The driver process is gone, and its slots with it."""


@dataclass
class World:
    """Storage and the outside world: what is in here survives a crash."""

    retained: int = 1
    backend: str = "deltas"  # or "database", or "confirmed": deltas to the last checkpoint known to be complete
    manifests: dict[int, bytes] = field(default_factory=dict)
    files: dict[str, list[int]] = field(default_factory=dict)  # a state file and the values it adds
    published: dict[int, list[int]] = field(default_factory=dict)  # by epoch
    tokens: itertools.count = field(default_factory=itertools.count)
    fault: str | None = None  # what goes wrong next
    aborts: int = 0

    def durable(self):
        return [
            decode(self.manifests[checkpoint_id], "x") for checkpoint_id in sorted(self.manifests)
        ]

    def strikes(self, fault):
        if self.fault != fault:
            return False
        self.fault = None
        return True

    def commit(self, request):
        """Publish all but the last value; the last one waits for the next checkpoint, unless there is none."""
        assert request.checkpoint_id in self.manifests, "a commit before its manifest is durable"
        values = [*(request.pending or []), *request.committables]
        kept = [] if request.final else values[-1:]
        ready = values[: len(values) - len(kept)]
        assert self.published.setdefault(request.checkpoint_id, ready) == ready, (
            "a commit changed its mind"
        )
        return kept or None

    def check_published(self):
        out = Counter(value for values in self.published.values() for value in values)
        twice = [value for value, count in out.items() if count > 1]
        assert not twice, f"published twice: {twice}"


class Slot:
    """One region: both its subtasks, from a restore to the next."""

    def __init__(self, world, region, base):
        self.world, self.region = world, region
        self.attempt = f"t{next(world.tokens)}"
        self.commands = deque()
        self.acks = deque()  # (number, ack) that the driver has not got yet
        self.channel = deque()  # values, and numbers of checkpoints as ("barrier", n, position)
        self.base = base
        self.position = 0
        self.chain = StateChain()
        if base is not None:
            self.position = base.sources["source"].load_splits(region)[0].position
            self.chain = base.operators["total"].subtasks[region]
        self.values = [value for name in self.chain.files() for value in world.files[name]]
        self.confirmed = (self.chain, len(self.values))
        self.snapshots = {}  # number -> (chain, how many values it has)
        self.since = []  # values since the last barrier
        self.kept = {}  # committables of checkpoints not known to be complete
        self.aborted = set()
        self.ends = False

    def read(self, count):
        if not self.ends:
            for _ in range(count):
                # Even numbers in one region, odd ones in the other.
                self.channel.append(2 * self.position + self.region)
                self.position += 1

    def obey(self):
        """Carry out the next thing that the driver has said."""
        if not self.commands:
            return
        match self.commands.popleft():
            case ("trigger", number):
                self.channel.append(("barrier", number, self.ends))
                self._acknowledge(
                    number,
                    "read",
                    splits={"source": (progress(f"s{self.region}", self.position),)},
                    finished=self.ends,
                )
            case ("completed", number):
                self.kept = {n: items for n, items in self.kept.items() if n > number}
                if number in self.snapshots:
                    self.confirmed = self.snapshots[number]
            case ("aborted", number):
                self.aborted.add(number)

    def process(self, *, compact=False):
        """Take the next thing out of the channel."""
        if not self.channel:
            return
        item = self.channel.popleft()
        if isinstance(item, int):
            self.values.append(item)
            self.since.append(item)
            return
        _, number, ends = item
        if number in self.aborted:
            return
        self._snapshot(number, compact)
        carried = {n: {"sink": tuple(items)} for n, items in self.kept.items()}
        self.kept[number] = self.since
        self._acknowledge(
            number,
            "sum",
            upstream=(Channel(TaskId("read", self.region), self.attempt),),
            states={"total": self.chain},
            committables={"sink": tuple(self.since)},
            carried=carried,
            finished=ends,
        )
        self.since = []

    def _snapshot(self, number, compact):
        name = file_of(number, TaskId("sum", self.region), self.attempt)
        chain, count = self.chain, len(self.values)
        if self.world.backend == "confirmed":
            chain, had = self.confirmed
        else:
            had = sum(len(self.world.files[each]) for each in chain.files())
        if compact or not chain:
            chain, had = StateChain(), 0
        self.world.files[name] = self.values[had:]
        if self.world.backend == "database":
            self.chain = self._database(chain, name)
        else:
            self.chain = chain.append(delta(name) if chain else full(name))
        self.snapshots[number] = (self.chain, count)

    def _database(self, chain, name):
        """A snapshot of a database: a file of its own, and those of the snapshot before it."""
        before = chain.database
        files = ()
        if before is not None:
            names = before.names()
            files = tuple(SharedFile(n, n, 1, 0) for n in sorted(names))
        handle = StateHandle(
            "full",
            1,
            0,
            (0, 128),
            name=name,
            snapshot=name,
            base=self.chain.database.snapshot if self.chain.database else None,
            files=files,
        )
        return StateChain((handle,))

    def _acknowledge(self, number, vertex, **parts):
        ack = Ack(number, TaskId(vertex, self.region), self.attempt, now_ms=number, **parts)
        self.acks.append((number, ack))


class Driver:
    """The shell around a coordinator, and the slots: one process tree, which may crash."""

    def __init__(self, world):
        self.world = world
        self.coordinator = CheckpointCoordinator(
            "job", "a job", retained=world.retained, pipelined=True
        )
        self.slots = []
        self.history = []  # all acks that came in, for those that come again
        self.restored = None  # what slots that start again start from
        self.finished = False
        self.pinned = []

    def restore(self):
        """Start all slots from what storage has."""
        durable = tuple(self.world.durable())
        base = durable[-1] if durable else None
        self.history = []
        if not self.carry_out(self.coordinator.handle(RestoreCheckpoint(base, durable))):
            return False
        for name in orphaned(self.world.files, self.world.durable()):
            self.world.files.pop(name)
        self.slots = [Slot(self.world, region, base) for region in REGIONS]
        self.check()
        return True

    def trigger(self):
        number = self.coordinator.next_checkpoint_id
        splits = {r: (progress(f"s{r}", 0),) for r in REGIONS}
        plan = TriggerCheckpoint(
            number,
            OPERATORS,
            EXPECTED,
            now_ms=number,
            sources={"source": SourcePlan("seen", splits)},
            channels=CHANNELS,
        )
        return self.carry_out(self.coordinator.handle(plan))

    def take(self, region):
        """Take the next ack of a slot."""
        slot = self.slots[region]
        if not slot.acks:
            return True
        _, ack = slot.acks.popleft()
        self.history.append(ack)
        return self.carry_out(self.coordinator.handle(ack))

    def decline(self, region):
        """Lose an ack: the slot declines the checkpoint, although its file may be there."""
        slot = self.slots[region]
        if not slot.acks:
            return True
        number, _ = slot.acks.popleft()
        return self.abort(number)

    def abort(self, number):
        return self.carry_out(self.coordinator.handle(AbortCheckpoint(number, "for a reason")))

    def take_again(self, index):
        if not self.history:
            return True
        return self.carry_out(self.coordinator.handle(self.history[index % len(self.history)]))

    def restart(self, region):
        """One region goes back to the last completed checkpoint, the other goes on."""
        for number in self.coordinator.pending_checkpoint_ids:
            self.carry_out(
                self.coordinator.handle(AbortCheckpoint(number, "a region restarts", False))
            )
        self.slots[region] = Slot(self.world, region, self.coordinator.base)
        return True

    def carry_out(self, instructions):
        """Carry out instructions and everything that follows from them; return whether all went well."""
        world, handle = self.world, self.coordinator.handle
        todo = list(instructions)
        while todo:
            instruction = todo.pop(0)
            match instruction:
                case TriggerSources(number):
                    self.tell("trigger", number)
                case WriteManifest(manifest):
                    if world.strikes("crash before the manifest"):
                        raise CrashError
                    if world.strikes("error before the manifest"):
                        todo += handle(ManifestFailed(manifest.checkpoint_id, "down"))
                        continue
                    assert manifest.checkpoint_id not in world.manifests, "a number was used twice"
                    world.manifests[manifest.checkpoint_id] = encode(manifest)
                    self.check()
                    if world.strikes("crash after the manifest"):
                        raise CrashError
                    if world.strikes("error after the manifest"):
                        todo += handle(ManifestFailed(manifest.checkpoint_id, "timeout"))
                        continue
                    todo += handle(ManifestWritten(manifest.checkpoint_id))
                case CommitSink(operator, request):
                    if world.strikes("crash before the commit"):
                        raise CrashError
                    if world.strikes("error before the commit"):
                        todo += handle(CommitFailed(operator, request.checkpoint_id, "down"))
                        continue
                    pending = world.commit(request)
                    if world.strikes("crash after the commit"):
                        raise CrashError
                    if world.strikes("error after the commit"):
                        todo += handle(CommitFailed(operator, request.checkpoint_id, "timeout"))
                        continue
                    todo += handle(CommitFinished(operator, request.checkpoint_id, pending))
                case DeleteCheckpoint() | DeleteFiles() | DeleteOrphans():
                    self.delete(instruction)
                case NotifyCheckpointComplete(number, final):
                    assert number == self.coordinator.base.checkpoint_id
                    self.tell("completed", number)
                    self.finished = final
                case NotifyCheckpointAborted(number, _):
                    world.aborts += 1
                    self.tell("aborted", number)
                case CheckpointRestored(_, final):
                    self.finished = final
                case FailExecution():
                    return False
        return True

    def delete(self, instruction):
        if self.world.strikes("crash in retention"):
            raise CrashError
        match instruction:
            case DeleteCheckpoint(number):
                assert number not in self.pinned
                self.world.manifests.pop(number, None)
            case DeleteFiles(names):
                for name in names:
                    self.world.files.pop(name)
            case DeleteOrphans(up_to, needed):
                for name in unneeded_files(self.world.files, needed, up_to):
                    self.world.files.pop(name)
        self.check()

    def tell(self, *command):
        for slot in self.slots:
            slot.commands.append(command)

    def check(self):
        """Nothing is missing that any checkpoint needs, or that a slot will name in its next one."""
        files = self.world.files.keys()
        for manifest in self.world.durable():
            assert manifest.files() <= files, f"chk-{manifest.checkpoint_id} lost a file"
        for slot in self.slots:
            named = {name for chain, _ in slot.snapshots.values() for name in chain.files()}
            if self.world.backend != "confirmed":
                named = set(slot.chain.files())
            elif self.coordinator.pending_checkpoint_ids:
                named = {
                    name
                    for number, (chain, _) in slot.snapshots.items()
                    if number in self.coordinator.pending_checkpoint_ids
                    for name in chain.files()
                }
            else:
                named = set()
            assert named <= files, f"slot {slot.region} lost a file that its next snapshot names"


def run(world, actions):
    """Let things happen, then let the job come to its end without any more of them; return the driver."""
    driver = restarted(world)
    for action in actions:
        driver = step(driver, action)
        world.check_published()
        if driver.finished:
            break
    world.fault = None
    return finish(driver)


def restarted(world):
    while True:
        driver = Driver(world)
        try:
            if driver.restore():
                return driver
        except CrashError:
            pass


def step(driver, action):
    """Do one thing; return the driver that is there afterwards."""
    world = driver.world
    try:
        well = do(driver, action)
    except CrashError:
        return restarted(world)
    if driver.coordinator.phase is CoordinatorPhase.FAILED:
        assert not well
        return restarted(world)
    return driver


def do(driver, action):
    match action:
        case ("read", region, count):
            driver.slots[region].read(count)
        case ("obey", region):
            driver.slots[region].obey()
        case ("process", region, compact):
            driver.slots[region].process(compact=compact)
        case ("go on", region, count):  # a busy slot: so that checkpoints come about at all
            slot = driver.slots[region]
            for _ in range(count):
                slot.obey()
                slot.process()
                if not driver.take(region):
                    return False
        case ("take", region):
            return driver.take(region)
        case ("decline", region):
            return driver.decline(region)
        case ("again", index):
            return driver.take_again(index)
        case ("trigger",):
            if len(driver.coordinator.pending_checkpoint_ids) < 3:
                return driver.trigger()
        case ("expire", index):
            pending = driver.coordinator.pending_checkpoint_ids
            if pending:
                return driver.abort(pending[index % len(pending)])
        case ("restart", region):
            return driver.restart(region)
        case ("pin",):
            if driver.coordinator.base is not None:
                number = driver.coordinator.base.checkpoint_id
                driver.coordinator.pin(number)
                driver.pinned.append(number)
        case ("unpin",):
            if driver.pinned:
                driver.coordinator.unpin(driver.pinned.pop())
        case ("crash",):
            raise CrashError
        case ("fault", fault):
            driver.world.fault = fault
    return True


def finish(driver):
    """Let all sources end, and take checkpoints until one is the last."""
    while driver.pinned:
        driver.coordinator.unpin(driver.pinned.pop())
    for _ in range(3):
        if driver.finished:
            break
        for slot in driver.slots:
            slot.ends = True
        assert driver.trigger()
        while any(slot.commands or slot.channel or slot.acks for slot in driver.slots):
            for region in REGIONS:
                assert do(driver, ("go on", region, 1))
            if driver.finished:
                break
    assert driver.finished, "the job does not come to its end"
    return driver
