"""The journal of a job: the data with which `penstock replay` runs an interval again locally.

Here an interval is the interval between two checkpoints, in both modes; its number is that of the second one.

```
<base>/<job id>/journal/<N>             the last attempt of checkpoint N: start checkpoint, assigned splits, traces
<base>/<job id>/journal/<N>.failed      the last failed attempt of checkpoint N
<base>/<job id>/journal/plan-<hash>     the vertices with the user's code, once for each plan
```

A record is written before its interval runs, so that it exists after any failure, and again afterwards with the traces of tasks. It is
deleted with the checkpoint that it starts from. The journal never fails a job: records that cannot be written are missing later. A
fenced driver leaves the journal to its successor.
"""

from __future__ import annotations

import hashlib
import io
import logging
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import JOURNAL, ManifestStore
from penstock.checkpoint.signing import Signer
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import CheckpointError
from penstock.graph.deployment import JobSettings, LevelDeployment, VertexDeployment
from penstock.graph.task_id import TaskId
from penstock.jobmanager.job import Job
from penstock.pickling import cloudpickling
from penstock.runtime.network.messages import TaskAck, TaskFailedError, TaskFailure
from penstock.runtime.time.decisions import SlotTrace
from penstock.time import clock

VERSION = 3
_SIGNED = "journal"
_HEADER = b"penstock journal %d" % VERSION

Outcome = Literal["running", "completed", "failed"]

_log = logging.getLogger(__name__)
_RECORD_NAME = re.compile(rf"{JOURNAL}/(\d+)(\.failed)?")


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """The part of the journal that intervals share: vertices with the user's code, and its import path."""

    job_name: str
    settings: JobSettings
    vertices: tuple[VertexDeployment, ...]
    uids: Mapping[str, str]  # by operator id
    sinks: frozenset[str]  # operator ids
    retained: int
    script_directory: str | None
    python_files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IntervalRecord:
    """One attempt of one interval.

    `base` is the job's own checkpoint from which the interval started; None if it started without state, or from another job's checkpoint
    (`foreign`), which is part of `restore` then. `failure` is the failure of a task, or the text of another failure. `flows`: it ran in
    pipelined mode, and its traces have the order of calls.
    """

    job_id: str
    #: Of the checkpoint that ends the interval.
    checkpoint_id: int
    #: The job's own checkpoint that it started from; None: no state, or another job's.
    base: int | None
    #: Whether it started from another job's checkpoint, which is part of `restore` then.
    foreign: bool
    #: The attempt of the job; the same interval has one record per attempt.
    attempt: int
    started_ms: int
    #: When sources were to stop reading (epoch seconds); None: they read all input.
    deadline: float | None
    #: Name of the file with the PlanRecord.
    plan: str
    #: The StateIO of the tasks.
    state_io: Any
    #: The restore points of the subtasks, pickled.
    restore: bytes
    #: The assigned splits of the source subtasks, pickled.
    assignments: bytes
    outcome: Outcome = "running"
    #: Of a task, or the text of another failure; None unless the outcome is `failed`.
    failure: TaskFailure | str | None = None
    #: Of the slots that have reported.
    traces: tuple[SlotTrace, ...] = ()
    #: It ran in pipelined mode, and its traces have the order of calls.
    pipelined: bool = False

    @property
    def before(self) -> int:
        """The checkpoint that a replay needs, 0 if none."""
        return self.base if self.base is not None else self.checkpoint_id - 1

    @property
    def seconds(self) -> float | None:
        """The reading time of sources, or None to read all input."""
        return None if self.deadline is None else self.deadline - self.started_ms / 1000

    def load_restore(self, base: Manifest | None) -> dict[TaskId, Any]:
        """Return the restore point of each subtask; `base` is the manifest that the record refers to."""
        restore: dict[TaskId, Any] = _Unpickler(io.BytesIO(self.restore), base).load()
        return restore

    def load_assignments(self) -> dict[TaskId, Any]:
        """Return the assigned splits of each source subtask."""
        assignments: dict[TaskId, Any] = pickle.loads(self.assignments)
        return assignments


class _Pickler(cloudpickling.Pickler):
    """Replaces objects of the base checkpoint by references, so that a record stays small."""

    def __init__(self, file: io.BytesIO, base: Manifest | None) -> None:
        super().__init__(file, 5)
        self._named: dict[int, tuple[Any, ...]] = {}
        if base is None:
            return
        for name, operator in base.operators.items():
            for subtask, chain in enumerate(operator.subtasks):
                self._named[id(chain)] = ("chain", name, subtask)
        for name, vertex in base.vertices.items():
            for subtask, snapshot in enumerate(vertex.subtasks):
                if snapshot.local is not None:
                    self._named[id(snapshot.local)] = ("local", name, subtask)

    def persistent_id(self, value: object) -> tuple[Any, ...] | None:
        """Return the reference to an object of the base."""
        return self._named.get(id(value))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, base: Manifest | None) -> None:
        super().__init__(file)
        self._base = base

    def persistent_load(self, name: Any) -> object:
        """Return the object of the base for a reference."""
        assert self._base is not None
        kind, owner, subtask = name
        if kind == "chain":
            return self._base.operators[owner].subtasks[subtask]
        return self._base.vertices[owner].subtasks[subtask].local


@dataclass(frozen=True, slots=True)
class IntervalStart:
    """The start of an interval: its number, if known, and the restore points of its subtasks."""

    checkpoint_id: int
    attempt: int
    restore: Mapping[TaskId, Any]
    assignments: Mapping[TaskId, Any]
    state_io: Any
    deadline: float | None = None
    pipelined: bool = False

    @classmethod
    def of(cls, levels: Sequence[LevelDeployment]) -> IntervalStart:
        """Return the start of an interval in interval mode."""
        first = levels[0]
        return cls(
            first.checkpoint_id,
            first.attempt_number,
            {key: point for level in levels for key, point in level.restore.items()},
            {key: each for level in levels for key, each in level.assignments.items()},
            first.state_io,
            first.deadline,
        )


class JournalEntry:
    """The entry of the running interval: collects the traces of its tasks."""

    def __init__(self) -> None:
        self.traces: list[SlotTrace] = []

    def note(self, ack: TaskAck) -> None:
        """Record an acknowledgement."""
        if ack.trace is not None:
            self.traces.append(ack.trace)


class Journal:
    """Writes the records of a job while it runs. On the driver, by the thread that drives the job."""

    def __init__(self, store: ManifestStore) -> None:
        self._check_lease = store.check_lease
        # Losing a record in a power failure is acceptable: no fsync.
        self._storage = CheckpointFileSystem(store.storage.base, sync=False)
        self._job_id = store.job_id
        self._signer = store.signer
        self._plan: tuple[Job, str] | None = None
        self._kept: dict[str, tuple[int, str]] | None = None  # by name: base interval, plan

    @contextmanager
    def entry(
        self, job: Job, base: Manifest | None, levels: Sequence[LevelDeployment]
    ) -> Iterator[JournalEntry]:
        """Write the record of an interval before the body runs it and again afterwards, if the job has a journal."""
        entry = JournalEntry()
        record = self.begin(job, base, IntervalStart.of(levels))
        try:
            yield entry
        except Exception as error:
            self.failed(record, error, entry.traces)
            raise
        self.completed(record, entry.traces)

    def begin(
        self, job: Job, base: Manifest | None, beginning: IntervalStart
    ) -> IntervalRecord | None:
        """Record the start of an interval; None if the job has no journal, or it cannot be written."""
        if not job.settings.journal:
            return None
        record: IntervalRecord | None = self._attempt(self._begin, job, base, beginning)
        return record

    def completed(
        self,
        record: IntervalRecord | None,
        traces: Sequence[SlotTrace],
        checkpoint_id: int | None = None,
    ) -> None:
        """Record that an interval was completed; by the checkpoint `checkpoint_id`, if earlier ones were aborted."""
        if record is None:
            return
        number = record.checkpoint_id if checkpoint_id is None else checkpoint_id
        done = replace(record, checkpoint_id=number, outcome="completed", traces=tuple(traces))
        self._attempt(self._note_end, record_name(number), done)
        if number != record.checkpoint_id:
            self._attempt(self._delete, record_name(record.checkpoint_id))

    def failed(
        self, record: IntervalRecord | None, error: Exception, traces: Sequence[SlotTrace]
    ) -> None:
        """Record that an interval failed."""
        if record is not None:
            self._attempt(self._note_failure, record, error, traces)

    def _attempt(self, action: Callable[..., Any], *arguments: object) -> Any:
        try:
            return action(*arguments)
        except Exception as error:  # noqa: BLE001 - user code is pickled here; the job continues without its journal
            _log.warning("cannot write the journal for `penstock replay`: %s", error)
            return None

    def _begin(self, job: Job, base: Manifest | None, beginning: IntervalStart) -> IntervalRecord:
        own = base is not None and base.job_id == self._job_id
        if self._kept is None:
            self._kept = self._find_records()
        record = IntervalRecord(
            job_id=self._job_id,
            checkpoint_id=beginning.checkpoint_id,
            base=base.checkpoint_id if base is not None and own else None,
            foreign=base is not None and not own,
            attempt=beginning.attempt,
            started_ms=clock.now_ms(),
            deadline=beginning.deadline,
            plan=self._plan_of(job),
            state_io=beginning.state_io,
            restore=_dump(beginning.restore, base if own else None),
            assignments=_dump(beginning.assignments, None),
            pipelined=beginning.pipelined,
        )
        # First, because it may replace the last record that refers to an old plan.
        self._write(record_name(record.checkpoint_id), record)
        self._prune(record.before, job.checkpoints.retained, record.plan)
        return record

    def _note_failure(
        self, record: IntervalRecord, error: Exception, traces: Sequence[SlotTrace]
    ) -> None:
        failure: TaskFailure | str = f"{type(error).__name__}: {error}"
        if isinstance(error, TaskFailedError):
            failure = replace(error.failure, trace=None)
            if error.failure.trace is not None:
                traces = (*traces, error.failure.trace)
        failed = replace(
            record,
            outcome="failed",
            failure=failure,
            traces=tuple(_since(record.before, trace) for trace in traces),
        )
        self._note_end(record_name(record.checkpoint_id, failed=True), failed)

    def _note_end(self, name: str, record: IntervalRecord) -> None:
        self._check_lease()  # intervals may take long
        self._write(name, record)

    def _write(self, name: str, record: IntervalRecord) -> None:
        self._storage.write_atomic(name, _encode(record, self._signer))
        if self._kept is not None:
            self._kept[name] = (record.before, record.plan)

    def _delete(self, name: str) -> None:
        self._storage.delete(name)
        if self._kept is not None:
            self._kept.pop(name, None)

    def _plan_of(self, job: Job) -> str:
        """Return the name of the plan's file, which is written once."""
        if self._plan is not None and self._plan[0] is job:
            return self._plan[1]
        operators = [each for vertex in job.plan.vertices for each in vertex.operators]
        data = _encode(
            PlanRecord(
                job_name=job.name,
                settings=job.settings,
                vertices=job.deployments,
                uids={each.operator_id: each.uid for each in operators if each.uid is not None},
                sinks=frozenset(e.operator_id for e in operators if e.spec.writes_to is not None),
                retained=job.checkpoints.retained,
                script_directory=_script_directory(),
                python_files=job.dependencies.files,
            ),
            self._signer,
        )
        name = f"{JOURNAL}/plan-{hashlib.sha256(data).hexdigest()[:16]}"
        if not self._storage.exists(name):
            self._storage.write_atomic(name, data)
        self._plan = (job, name)
        return name

    def _find_records(self) -> dict[str, tuple[int, str]]:
        """Return the records of earlier runs of the job."""
        found = {}
        for name in self._storage.list(f"{JOURNAL}/"):
            if _RECORD_NAME.fullmatch(name):
                record = self._attempt(read_record, self._storage, name, self._signer)
                found[name] = (record.before, record.plan) if record is not None else (-1, "")
            else:
                found[name] = (-1, name)  # a plan: deleted unless a record refers to it
        return found

    def _prune(self, newest: int, retained: int, plan: str) -> None:
        """Delete records whose checkpoint has been deleted, as retention keeps the newest `retained`."""
        assert self._kept is not None
        oldest = max(newest - retained + 1, 0)
        gone = [name for name, (base, _) in self._kept.items() if base < oldest and name != plan]
        used = {each for name, (_, each) in self._kept.items() if name not in gone} | {plan}
        for name in gone:
            if name not in used:
                self._storage.delete(name)
                del self._kept[name]
        self._kept[plan] = (-1, plan)


def record_name(checkpoint_id: int, *, failed: bool = False) -> str:
    """Return the name of a record, relative to the job's directory.

    >>> record_name(7), record_name(7, failed=True)
    ('journal/7', 'journal/7.failed')
    """
    return f"{JOURNAL}/{checkpoint_id}.failed" if failed else f"{JOURNAL}/{checkpoint_id}"


def list_records(storage: CheckpointFileSystem) -> list[tuple[int, bool]]:
    """Return the intervals in the journal of a job's directory, in order, each with whether it is a failed attempt."""
    found = (_RECORD_NAME.fullmatch(name) for name in storage.list(f"{JOURNAL}/"))
    return sorted((int(match.group(1)), match.group(2) is not None) for match in found if match)


def read_record(
    storage: CheckpointFileSystem, name: str, signer: Signer | None = None
) -> IntervalRecord:
    """Return the record of an interval."""
    record = _decode(storage, name, signer)
    if not isinstance(record, IntervalRecord):
        raise CheckpointError(f"'{storage.path(name)}' is not a record of an interval")
    return record


def read_plan(storage: CheckpointFileSystem, name: str, signer: Signer | None = None) -> PlanRecord:
    """Return the plan that a record names."""
    plan = _decode(storage, name, signer)
    if not isinstance(plan, PlanRecord):
        raise CheckpointError(f"'{storage.path(name)}' is not a plan")
    return plan


def _since(checkpoint: int, trace: SlotTrace) -> SlotTrace:
    """Return the part of a trace after the barrier of a completed checkpoint.

    A slot that ends before it learns that the checkpoint is complete also reports what it did before the barrier.
    """
    later = (
        each for each in trace.subtasks if each.checkpoint is None or each.checkpoint > checkpoint
    )
    return replace(trace, subtasks=tuple(later))


def _dump(value: object, base: Manifest | None) -> bytes:
    file = io.BytesIO()
    _Pickler(file, base).dump(value)
    return file.getvalue()


def _encode(record: IntervalRecord | PlanRecord, signer: Signer | None = None) -> bytes:
    pickled: bytes = cloudpickling.dumps(record, 5)
    signed = b"" if signer is None else b" " + signer.sign(_SIGNED, pickled).encode()
    return _HEADER + signed + b"\n" + pickled


def _decode(storage: CheckpointFileSystem, name: str, signer: Signer | None) -> object:
    first, _, data = storage.read(name).partition(b"\n")
    header, signature = first[: len(_HEADER)], first[len(_HEADER) :].strip()
    if header != _HEADER:
        raise CheckpointError(
            f"'{storage.path(name)}' was written by another version of Penstock",
            detail=f"its header is {header[:40]!r}",
            hint="replay the interval with the version of Penstock that ran it",
        )
    if signer is not None:
        signer.check(_SIGNED, data, signature.decode("ascii", "replace"), storage.path(name))
    return pickle.loads(data)


def _script_directory() -> str | None:
    """Return the directory of the program, which is on the import path."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return None if path is None else str(Path(path).resolve().parent)
