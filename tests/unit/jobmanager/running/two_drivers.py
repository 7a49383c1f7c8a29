"""Drivers of one job that take turns, one call of storage at a time: any order of their steps can be tried."""

from __future__ import annotations

import contextlib
import fcntl
import threading
from types import SimpleNamespace

import pytest

from penstock.checkpoint import heartbeat_lease
from penstock.checkpoint.file_lock import FileLock
from penstock.checkpoint.heartbeat_lease import HeartbeatLease
from penstock.checkpoint.lease_owner import LeaseOwner
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.connectors.base.sink import Committer
from penstock.errors import CheckpointError, FencedError
from penstock.files import faults
from penstock.graph.task_id import TaskId
from penstock.jobmanager.job import CheckpointSettings
from penstock.jobmanager.job_master.failures import root_cause
from penstock.jobmanager.running.driver import ExecutionFailedError
from penstock.jobmanager.running.epochs.runner import EpochRunner
from penstock.runtime.network.messages import TaskAck

EPOCHS = 2
KILL = 9


class Killed(BaseException):
    """The process of a driver was killed."""


class Tokens(threading.local):
    """The leases that a process holds: here every thread is a process."""

    def __init__(self):
        self._held = set()

    def __contains__(self, token):
        return token in self._held

    def add(self, token):
        self._held.add(token)

    def discard(self, token):
        self._held.discard(token)


class Turns:
    """Lets threads go on one call of storage at a time, in a given order; KILL ends the one whose turn it is."""

    def __init__(self, order):
        self._order = list(order)
        self._turn = threading.Condition()
        self._names: dict[int, int] = {}
        self._waiting: set[int] = set()
        self._running: set[int] = set()

    def begin(self, numbers):
        self._running = set(numbers)

    def enter(self, number):
        self._names[threading.get_ident()] = number

    def __call__(self, action, path, call):
        number = self._names.get(threading.get_ident())
        if number is None:
            return call()
        with self._turn:
            self._waiting.add(number)
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._chosen() == number)
            self._waiting.discard(number)
            killed = bool(self._order) and self._order[0] >= KILL
        try:
            if killed:
                raise Killed
            return call()
        finally:
            with self._turn:
                if self._order:
                    self._order.pop(0)
                self._turn.notify_all()

    def _chosen(self):
        if self._waiting != self._running:  # a driver is between two calls
            return None
        ordered = sorted(self._running)
        return ordered[self._order[0] % len(ordered)] if self._order else ordered[0]

    def end(self, number):
        with self._turn:
            self._running.discard(number)
            self._turn.notify_all()


class World:
    """What the drivers share besides the checkpoint directory: the sink's output, and time."""

    def __init__(self, directory):
        self.directory = directory
        self.staged: set[str] = set()
        self.published: dict[int, list[str]] = {}
        self.lost: list[str] = []
        self.now = 1000.0

    def sleep(self, seconds):
        self.now += seconds


class WorldCommitter(Committer):
    def __init__(self, world):
        self._world = world

    def commit(self, request):
        found = self._world.published.setdefault(request.checkpoint_id, [])
        for name in request.committables:
            if name in self._world.staged:
                self._world.staged.discard(name)
                found.append(name)
            elif name not in found:
                self._world.lost.append(name)

    def clean_up(self, requests, job_id):
        kept = {name for request in requests for name in request.committables}
        self._world.staged &= kept


def tiny_job(world):
    operator = SimpleNamespace(operator_id="sink", name="sink", uid=None, state_description=None)
    vertex = SimpleNamespace(
        id="v", parallelism=1, max_parallelism=128, operators=[operator], inputs=()
    )
    sink = SimpleNamespace(create_committer=lambda: WorldCommitter(world))
    return SimpleNamespace(
        job_id="job",
        name="job",
        plan=SimpleNamespace(vertices=[vertex]),
        checkpoints=CheckpointSettings(directory="", temporary=False),
        sinks=lambda: {"sink": sink},
        sources=list,
        bounded=True,
    )


class Driver:
    """A driver process as far as leases and checkpoints go. `skew` is what its clock is wrong by."""

    def __init__(self, world, number, kind, skew=0.0):
        self.world = world
        self.number = number
        self.kind = kind
        self.skew = skew
        self.outcome = "running"
        self.store = ManifestStore(CheckpointFileSystem(str(world.directory), sync=False), "job")
        self._attempts = 0

    def drive(self):
        try:
            self.outcome = self._run()
        except Killed:
            self.outcome = "killed"
            if isinstance(self.store._lease, FileLock):
                self.store._lease.abandon()  # as the kernel does
        except FencedError:
            self.outcome = "refused"
        except CheckpointError as error:
            self.outcome = f"failed: {error}"

    def _run(self):
        self.store.storage.exists()  # a step, so that the order says who starts first
        self.store._lease = self._acquire()
        runner = EpochRunner(tiny_job(self.world), self.store, self)
        for _ in range(5):
            try:
                runner.restore(self.store.latest())
                while not runner.checkpoints.finished:
                    runner.run_epoch()
            except (CheckpointError, ExecutionFailedError) as error:
                cause = root_cause(error) if isinstance(error, ExecutionFailedError) else error
                if isinstance(cause, FencedError):
                    self.store.release()
                    return "fenced"
            else:
                with contextlib.suppress(FencedError):
                    runner.sweep()
                self.store.release()
                return "finished"
        return "gave up"

    def _acquire(self):
        owner = LeaseOwner(f"{self.number}", "far", 7, 0, f"token-{self.number}")
        if self.kind != "heartbeat":
            return FileLock.acquire(self.store.storage.local_directory, owner, sync=False)
        return HeartbeatLease.acquire(
            self.store.storage,
            owner,
            stale_after_s=3.0,
            beating=False,
            clock=lambda: self.world.now + self.skew,
            sleep=self.world.sleep,
        )

    def run(self, checkpoint_id, base, assignments, settings, on_ack):
        """The pipe of this driver."""
        self._attempts += 1
        name = f"{checkpoint_id}-{self.number}-{self._attempts}"
        self.store.storage.write_new(f"shared/{name}.state", b"x")
        self.world.staged.add(name)
        on_ack(
            TaskAck(
                task=TaskId("v", 0),
                attempt=name,
                upstream={},
                keyed={},
                local=b"",
                committables={"sink": [name]},
                finished=checkpoint_id == EPOCHS,
            )
        )


def run_drivers(world, order, drivers):
    """Run drivers in threads, in the given order of their steps."""
    turns = Turns(order)
    turns.begin(driver.number for driver in drivers)

    def run(driver):
        turns.enter(driver.number)
        try:
            driver.drive()
        finally:
            turns.end(driver.number)

    threads = [threading.Thread(target=run, args=(driver,), daemon=True) for driver in drivers]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heartbeat_lease, "_held", Tokens())
        patch.setattr(faults, "_hook", turns)
        if drivers[0].kind == "unshared":
            patch.setattr(fcntl, "flock", lambda *_: None)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()


def run_alone(world, number, kind):
    """Run one more driver, when all others are over."""
    driver = Driver(world, number, kind)
    run_drivers(world, (), [driver])
    return driver
