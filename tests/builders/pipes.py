"""Small pipes built by hand: vertices, their levels, and an epoch that keeps every row in sight."""

from __future__ import annotations

import pickle

import cloudpickle

from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceAssignment,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitProgress,
)
from penstock.graph.deployment import (
    ChainedOperatorInfo,
    InputGate,
    JobSettings,
    LevelDeployment,
    ResultEdge,
    SubtaskRestore,
    VertexCode,
    VertexDeployment,
)
from penstock.graph.levels import count_slots
from penstock.graph.task_id import TaskId
from penstock.runtime.network.messages import ACK, FAILURE
from penstock.runtime.records import RowBatch
from penstock.runtime.task.epochs.epoch_slot import run_slot


class Numbers(Source):
    """A split's payload is a list of (value, timestamp); all come in one batch."""

    def __init__(self, bounded=True):
        self.bounded = bounded

    def get_boundedness(self):
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism, restored=None):
        raise NotImplementedError

    def create_reader(self):
        return _Reader()


class _Reader(SourceReader):
    def read(self, split, position, limits):
        records = split.payload[position or 0 :]
        if records:
            values = [value for value, _ in records]
            yield SourceBatch(values, len(split.payload), [time for _, time in records])


class MemoryStateIO:
    """Keeps state as bytes: a chain is a tuple of pickles."""

    def __init__(self):
        self.stored = []

    def load(self, chain, owned=None):
        return (pickle.loads(part) for part in chain)

    def prepare(self, chain, name, delta, full):
        self.stored.append((name.operator, name.subtask, chain is None))
        made = ((pickle.dumps(full()),)) if chain is None else (*chain, pickle.dumps(delta))
        return made, lambda chain, follows: made

    def store_in_flight(self, name, payload):
        return payload

    def load_in_flight(self, handle):
        return handle


def vertex(
    number, *specs, level=1, parallelism=1, gates=(), edges=(), partitionings=(), keyed=(), offset=0
):
    """Describe a chain; operators are called v<vertex>.<position>."""
    last = len(specs) - 1
    return VertexDeployment(
        vertex=number,
        id=f"v{number}",
        name=f"v{number}",
        level=level,
        parallelism=parallelism,
        max_parallelism=128,
        operators=tuple(
            ChainedOperatorInfo(
                f"v{number}.{position}",
                f"v{number}.{position}",
                ((position + 1, None),) if position < last else (),
            )
            for position in range(len(specs))
        ),
        gates=tuple(gates),
        edges=tuple(edges),
        keyed=frozenset(keyed),
        code=cloudpickle.dumps(VertexCode(specs, tuple(partitionings))),
        slot_offset=offset,
    )


def edge(target, partitioning="FORWARD", *, index=0, operator=0, gate=0, targets=1, local=False):
    return ResultEdge(
        index, operator, None, target, gate, targets, 128, partitioning, local, f"v{target}"
    )


def gate(source, partitioning="FORWARD", *, number=0, sources=1, local=False):
    return InputGate(number, f"v{source}", 0, sources, partitioning, local)


def level(number, *vertices, next_slots=0, settings=None, **options):
    """Describe a level; tasks are named by the numbers of their vertices: (1, 0) is subtask 0 of v1."""
    values = {
        "checkpoint_id": 1,
        "attempt_number": 0,
        "restore": {},
        "assignments": {},
        "deadline": None,
        "state_io": MemoryStateIO(),
        "staging": "/staging",
        **options,
    }
    for name in ("restore", "assignments"):
        values[name] = {TaskId(f"v{at}", subtask): v for (at, subtask), v in values[name].items()}
    return LevelDeployment(
        settings=settings or JobSettings("job", "job"),
        level=number,
        slots=count_slots(number, vertices),
        vertices=vertices,
        next_slots=next_slots,
        **values,
    )


def reads(*splits, no_more_splits=True):
    """An assignment of splits, each a list of (value, timestamp)."""
    return SourceAssignment(
        [
            SplitProgress(SourceSplit(f"s{n}", list(records), 0), 0)
            for n, records in enumerate(splits)
        ],
        no_more_splits,
    )


def run(deployment, slot=0, rows=(), attempt="a"):
    return list(run_slot(deployment, slot, attempt, rows))


def acks(rows):
    """Return the ACKs among rows, by the number of the vertex and the subtask."""
    return {number_of(ack.task): ack for ack in map(_loaded, rows) if ack is not None}


def number_of(task):
    return int(task.vertex.removeprefix("v")), task.subtask


def _loaded(row):
    return pickle.loads(row.payload) if row.kind == ACK else None


def failures(rows):
    return [pickle.loads(row.payload) for row in rows if row.kind == FAILURE]


def restore_of(ack, **options):
    """Where a subtask starts from after an ACK."""
    return SubtaskRestore(
        snapshot=ack.attempt,
        keyed={name: (chain,) for name, chain in ack.keyed.items()},
        local=ack.local,
        **options,
    )


def buffer(values, timestamps=None, keys=None):
    """The payload of a buffer."""
    return RowBatch(values, timestamps, keys).encode()
