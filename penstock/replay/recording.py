"""Finds an interval in a job's journal, and everything that its replay needs."""

from __future__ import annotations

import contextlib
import pickle
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal

from penstock import pyflink_compat
from penstock.checkpoint.lease import lease_owner
from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.signing import Signer
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import CheckpointError
from penstock.files.paths import normalize, split_options
from penstock.graph.deployment import SubtaskRestore, VertexCode
from penstock.graph.task_id import TaskId
from penstock.jobmanager.running.journal import (
    IntervalRecord,
    PlanRecord,
    list_records,
    read_plan,
    read_record,
    record_name,
)
from penstock.replay.errors import ReplayError

Attempt = Literal["failed", "last"]

_CHECKPOINT = re.compile(r"(.*)/chk-(\d+)(?:/_metadata)?")


@dataclass(frozen=True, slots=True)
class Recording:
    """An interval from the journal, with the checkpoint it started from and, if it completed, its own checkpoint."""

    record: IntervalRecord
    plan: PlanRecord
    base: Manifest | None
    after: Manifest | None
    state_io: Any

    @contextlib.contextmanager
    def python_path(self, extra: Sequence[str] = ()) -> Iterator[None]:
        """Make the job's modules importable: those next to its script, and those passed with --py-files."""
        before = list(sys.path)
        places = [*extra, *self.plan.python_files]
        if self.plan.script_directory is not None:
            places.append(self.plan.script_directory)
        for place in reversed(places):
            path = Path(place)
            folder = path.parent if path.suffix == ".py" else path
            if folder.exists():
                sys.path.insert(0, str(folder.resolve()))
        names = (
            pyflink_compat.pyflink_names()
            if self.plan.settings.pyflink_names
            else contextlib.nullcontext()
        )
        try:
            with names:
                yield
        finally:
            sys.path[:] = before

    def load_code(self) -> tuple[VertexCode, ...]:
        """Return the user code by vertex."""
        with self._explaining("the program"):
            return tuple(pickle.loads(vertex.code) for vertex in self.plan.vertices)

    def load_restore(self) -> dict[TaskId, SubtaskRestore]:
        """Return the state that each subtask is restored from."""
        with self._explaining("the state that the interval starts from"):
            points = self.record.load_restore(self.base)
        # No subtask of the job itself runs in this process.
        return {key: replace(point, snapshot=None) for key, point in points.items()}

    def load_assignments(self) -> dict[TaskId, Any]:
        """Return the splits of the sources."""
        with self._explaining("what the sources read"):
            return self.record.load_assignments()

    @contextlib.contextmanager
    def _explaining(self, what: str) -> Iterator[None]:
        try:
            yield
        except ImportError as error:
            raise ReplayError(
                f"{what} needs a module that cannot be imported: {error}",
                detail=f"script directory: {self.plan.script_directory or 'unknown'}",
                hint="pass its folder, file or archive with --py-files, or set PYTHONPATH; install the packages that the "
                "job uses",
            ) from error
        except Exception as error:
            raise ReplayError(
                f"{what} cannot be read here",
                detail=f"{type(error).__name__}: {error}",
                hint="use the Python and the library versions that the job ran with",
            ) from error


def find_interval(
    job_directory: str, checkpoint_id: int | None = None, attempt: Attempt | None = None
) -> Recording:
    """Find an interval of a job. Without a number: the last one that failed, else the last one.

    `job_directory` is `<checkpoint directory>/<job id>`; with `/chk-N` appended, it selects interval N. An interval that
    failed
    and then succeeded has two records: the failed attempt is used, unless `attempt` is "last".
    """
    directory, named = _split_path(job_directory)
    storage = CheckpointFileSystem(directory)
    signer = Signer.from_environment()
    store = ManifestStore.at(storage, signer)
    known = list_records(storage)
    if not known:
        raise _no_journal(store, directory)
    checkpoints = set(store.list_checkpoint_ids())
    wanted = checkpoint_id if checkpoint_id is not None else named
    if wanted is None:
        wanted = _last_failed(storage, known, checkpoints, signer) or max(
            number for number, _ in known
        )
    attempts = [failed for number, failed in known if number == wanted]
    if not attempts:
        raise ReplayError(
            f"no checkpoint {wanted} in the journal of '{directory}'",
            detail=f"the journal has {_show(sorted({number for number, _ in known}))}",
            hint="an interval's record is kept as long as the checkpoint before it: increase "
            "execution.checkpointing.num-retained to keep more of them",
        )
    failed = _choose(attempts, attempt, wanted)
    with _explaining_deletion(wanted):
        record = read_record(storage, record_name(wanted, failed=failed), signer)
        plan = read_plan(storage, record.plan, signer)
        base = _read_base(store, record, plan, checkpoints)
        after = None
        if record.outcome == "completed" and record.checkpoint_id in checkpoints:
            after = store.read(record.checkpoint_id)
    return Recording(record, plan, base, after, _moved(record.state_io, storage.base))


@contextlib.contextmanager
def _explaining_deletion(checkpoint_id: int) -> Iterator[None]:
    try:
        yield
    except CheckpointError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        raise ReplayError(
            f"checkpoint {checkpoint_id} can no longer be replayed: its checkpoint was deleted by the running job",
            detail=error.message,
            hint="increase execution.checkpointing.num-retained, or copy the job's directory before you replay",
        ) from error


def _split_path(path: str) -> tuple[str, int | None]:
    path, options = split_options(normalize(path))
    found = _CHECKPOINT.fullmatch(path)
    return (found.group(1) + options, int(found.group(2))) if found else (path + options, None)


def _last_failed(
    storage: CheckpointFileSystem,
    known: Sequence[tuple[int, bool]],
    checkpoints: set[int],
    signer: Signer | None,
) -> int | None:
    """Return the last interval with a failure that can be replayed.

    One that was killed counts as well. One that may still be running counts only if there is no other.
    """
    under_way = None
    for number, failed in reversed(known):
        if not failed and number in checkpoints:
            continue
        with _explaining_deletion(number):
            record = read_record(storage, record_name(number, failed=failed), signer)
        if record.outcome == "completed" or (
            record.base is not None and record.base not in checkpoints
        ):
            continue
        if record.outcome == "failed" or not _may_run(storage):
            return number
        under_way = under_way or number
    return under_way


def _may_run(storage: CheckpointFileSystem) -> bool:
    """Whether a driver may be running the job."""
    owner = lease_owner(storage)
    return owner is not None and not owner.is_gone


def _choose(attempts: list[bool], attempt: Attempt | None, checkpoint_id: int) -> bool:
    if attempt == "failed" and True not in attempts:
        raise ReplayError(
            f"the journal has no failed attempt of checkpoint {checkpoint_id}",
            hint="omit --attempt to replay the recorded one",
        )
    if attempt == "last":
        return False not in attempts
    return True in attempts


def _read_base(
    store: ManifestStore, record: IntervalRecord, plan: PlanRecord, checkpoints: set[int]
) -> Manifest | None:
    if record.base is None:
        return None
    if record.base in checkpoints:
        return store.read(record.base)
    raise ReplayError(
        f"checkpoint {record.checkpoint_id} cannot be replayed: the checkpoint that it starts from was deleted",
        detail=f"checkpoint {record.base} is gone; the job retains "
        f"{plan.retained} (there {'is' if len(checkpoints) == 1 else 'are'} now "
        f"{_show(sorted(checkpoints), 'chk-')})",
        hint="increase execution.checkpointing.num-retained to replay older intervals; an interval can be replayed while the "
        "checkpoint before it is retained",
    )


def _no_journal(store: ManifestStore, directory: str) -> ReplayError:
    if not store.storage.exists():
        return ReplayError(
            f"no job in '{directory}'",
            detail="the directory does not exist",
            hint="pass <checkpoint directory>/<job id>, as in execution.checkpointing.dir and the job's id",
        )
    return ReplayError(
        f"no replay journal in '{directory}'",
        detail="it is not a job's directory, or the job ran with penstock.replay.journal set to false or without a "
        "checkpoint directory, or has not started yet",
        hint="pass <checkpoint directory>/<job id>",
    )


def _moved(state_io: Any, directory: str) -> Any:
    """Return a state reader for a job's directory that may have been copied from elsewhere."""
    if is_dataclass(state_io) and hasattr(state_io, "directory"):
        return replace(state_io, directory=directory)  # type: ignore[type-var]
    return state_io


def _show(numbers: Sequence[int], prefix: str = "") -> str:
    shown = [f"{prefix}{number}" for number in numbers[-12:]]
    return ", ".join(["..."] * (len(numbers) > 12) + shown) if numbers else "none"


__all__ = ["Attempt", "Recording", "find_interval"]
