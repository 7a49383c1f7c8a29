"""Runs programs in a MiniCluster with a journal, and keeps what their sinks got: what a replay must give again."""

from __future__ import annotations

import pickle
import random
import uuid
from pathlib import Path

import pytest

from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.client import executors
from penstock.connectors.base.sink import Sink, SinkWriter
from penstock.errors import JobExecutionError
from penstock.jobmanager.running import thread_cluster
from penstock.replay import replay
from penstock.runtime.task.epochs import epoch_mode, subtask_cache
from penstock.runtime.task.epochs.epoch_slot import run_slot
from penstock.runtime.task.epochs.local_pipe import deliver
from penstock.testing import MiniCluster
from tests.builders.environments import configured

RETAINED = 500

tapes: dict[str, dict] = {}


def in_turn(names, parallelisms):
    """Return each program with each parallelism; `make test` runs each with one of them, in turn."""
    return [
        pytest.param(
            name,
            parallelism,
            marks=[] if number % len(parallelisms) == place else pytest.mark.full,
        )
        for number, name in enumerate(names)
        for place, parallelism in enumerate(parallelisms)
    ]


class Tape(Sink):
    """Keeps what it gets in this process, by interval and subtask."""

    def __init__(self):
        self.token = uuid.uuid4().hex
        tapes[self.token] = {}

    def create_writer(self, context, restored=None):
        return _TapeWriter(self.token, context.subtask)


class _TapeWriter(SinkWriter):
    def __init__(self, token, subtask):
        self._token, self._subtask = token, subtask

    def begin(self, checkpoint):
        self._records = tapes[self._token][checkpoint.checkpoint_id, self._subtask] = []

    def write(self, values, timestamps, watermark):
        times = timestamps or [None] * len(values)
        self._records.extend(zip(map(repr, values), times, strict=True))

    def prepare_commit(self):
        return []


def run_pipe_out_of_order(generator):
    """A pipe in which blocks of upstream slots arrive in any order, as they do on a cluster."""

    def run(levels, on_ack, cancelled):
        arriving = [[] for _ in range(levels[0].slots)]
        for level in levels:
            next_slots = max(level.next_slots, 1)
            blocks = [[] for _ in range(next_slots)]
            shipped = pickle.loads(pickle.dumps(level, 5))
            for slot in range(level.slots):
                sent = [[] for _ in range(next_slots)]
                for row in run_slot(shipped, slot, uuid.uuid4().hex, arriving[slot]):
                    sent[row.target % next_slots].append(row)
                for target, rows in enumerate(sent):
                    blocks[target].append(rows)
            for each in blocks:
                generator.shuffle(each)
            arriving = [[row for rows in each for row in rows] for each in blocks]
        deliver((row for rows in arriving for row in rows), on_ack)

    return run


class EpochClock:
    """A wall clock that shows the number of the interval."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._now = 0

    def on_step(self, moment, checkpoint_id):
        if moment == "before run_pipe":
            self._now = checkpoint_id * self._step

    def __call__(self):
        return self._now


class RecordedRun:
    """A program that was run to its end, or to its failure."""

    def __init__(self, directory: Path, cluster: MiniCluster, tape: Tape, error) -> None:
        self.master = cluster.masters[0]
        self.job_id = self.master.job.job_id
        self.directory = str(directory / self.job_id)
        self.error = error
        self._tape = tape

    @property
    def epochs(self):
        return ManifestStore.at(CheckpointFileSystem(self.directory)).list_checkpoint_ids()

    def written(self, checkpoint_id):
        """What the tape got in an interval, by subtask."""
        return {
            subtask: tuple(records)
            for (number, subtask), records in tapes[self._tape.token].items()
            if number == checkpoint_id
        }

    def replayed(self, checkpoint_id, **options):
        """Replay an interval; return what the tape would have got, and the result."""
        result = replay(self.directory, checkpoint_id, **options)
        (records,) = result.sinks.values()
        shown = {
            subtask: tuple((repr(record.value), record.timestamp) for record in each)
            for subtask, each in records.items()
        }
        return shown, result


def record_run(
    build,
    directory: Path,
    *,
    parallelism: int = 2,
    seed: int | None = None,
    keep_subtasks: bool = True,
    epoch_ms: int | None = None,
    options: dict[str, str] | None = None,
) -> RecordedRun:
    """Run a program; `build(env)` returns the stream whose records go to the tape.

    With a `seed`, channels arrive in any order. With `epoch_ms`, the wall clock goes on by so much in every interval.
    """
    settings = {
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.dir": str(directory),
        "execution.checkpointing.num-retained": str(RETAINED),
        "restart-strategy.type": "none",
        **(options or {}),
    }
    env = configured(settings, parallelism)
    tape = Tape()
    error = None
    with pytest.MonkeyPatch.context() as patch, MiniCluster() as cluster:
        if seed is not None:
            generator = random.Random(seed)
            patch.setattr(thread_cluster, "run_pipe_locally", run_pipe_out_of_order(generator))
        if not keep_subtasks:
            patch.setattr(subtask_cache, "put", lambda job, each, *_: each.close())
        if epoch_ms is not None:
            clock = EpochClock(epoch_ms)
            patch.setattr(epoch_mode, "wall_clock", clock)
            hooks = (*executors._step_hooks, clock.on_step)
            patch.setattr(executors, "_step_hooks", hooks)
        build(env).sink_to(tape).name("tape")
        try:
            env.execute("recorded")
        except JobExecutionError as failure:
            error = failure
    return RecordedRun(directory, cluster, tape, error)
