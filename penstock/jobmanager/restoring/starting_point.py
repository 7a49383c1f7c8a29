"""The snapshot from which a job starts: its own checkpoint, a savepoint, another job's checkpoint, or none."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from penstock.checkpoint.handles import DamagedStateError
from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import (
    METADATA,
    ManifestStore,
    UnreadableCheckpointError,
    find_checkpoint,
    resolve_restore_path,
    warn_of_fallback,
)
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.common.job_id import JobID
from penstock.errors import ArgumentError, CheckpointError, RestoreRefusedError
from penstock.files.paths import normalize, split_path
from penstock.jobmanager.job import CheckpointSettings
from penstock.savepoint.metadata import STATE
from penstock.savepoint.reader import dispose_savepoint, is_savepoint, read_savepoint

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovery:
    """The meaning of a recovery path: a snapshot for a new job, or a job that is resumed in its directory."""

    snapshot: str | None = None
    job_id: str | None = None
    directory: str | None = None


def find_recovery(path: str) -> Recovery:
    """Resolve a recovery path; raises RestoreRefusedError if there is no snapshot. Writes nothing.

    The directory of a job means that job: it is resumed under the same id, in the same directory. A savepoint or a single checkpoint
    (`.../chk-7`) starts a new job.
    """
    path = normalize(path, "the recovery path")
    if is_savepoint(path):
        return Recovery(snapshot=path)
    store, checkpoint_id = find_checkpoint(path)
    if checkpoint_id is not None:
        if checkpoint_id not in store.list_checkpoint_ids():
            raise _nothing_at(path)
        return Recovery(snapshot=path)
    if store.last_checkpoint_id() is None:
        raise _nothing_at(path)
    parent, name = split_path(path)
    try:
        JobID.from_hex_string(name)
    except ArgumentError as error:
        raise RestoreRefusedError(
            f"'{path}' is not the directory of a job",
            detail=f"it has checkpoints, but its name '{name}' is not a job id",
            hint="restore its original name, or start a new job from one of its checkpoints, .../chk-<N>",
        ) from error
    return Recovery(job_id=name, directory=parent)


def _nothing_at(path: str) -> RestoreRefusedError:
    place = CheckpointFileSystem(path)
    if not place.exists():
        problem = "the path does not exist"
    elif place.list(f"{STATE}/"):
        problem = f"it is a savepoint without its {METADATA}: it was never completed, or the file was deleted"
    else:
        problem = (
            f"it contains neither the {METADATA} of a savepoint nor checkpoints, chk-<N>/{METADATA}"
        )
    return RestoreRefusedError(
        f"no savepoint or checkpoint at '{path}'",
        detail=problem,
        hint="give a savepoint, <checkpoint directory>/<job id>, or .../chk-<N>; to start without state, remove "
        "execution.state-recovery.path. Set penstock.job-id for a job that resumes if it has checkpoints and starts fresh otherwise",
    )


def find_start(store: ManifestStore, checkpoints: CheckpointSettings) -> Manifest | None:
    """Return the job's own latest checkpoint, else the configured one, else None."""
    own = store.latest(allow_fallback=checkpoints.allow_fallback)
    path = checkpoints.restore_path
    if own is not None or path is None:
        return own
    if is_savepoint(path):
        return read_savepoint(path, store.signer)
    return resolve_restore_path(path, store.signer).manifest


def refused_fallback(
    store: ManifestStore,
    last: Manifest | None,
    cause: BaseException | None,
    checkpoints: CheckpointSettings,
) -> UnreadableCheckpointError | None:
    """Return why a job must not fall back to an older checkpoint after unreadable state; None if it may, or the failure is another."""
    if not isinstance(cause, DamagedStateError) or last is None or last.job_id != store.job_id:
        return None
    try:
        older = [
            checkpoint_id
            for checkpoint_id in store.list_checkpoint_ids()
            if checkpoint_id < last.checkpoint_id
        ]
    except CheckpointError:  # storage error: the restart strategy decides
        return None
    if older and checkpoints.allow_fallback:
        return None
    return store.cannot_restore(last.checkpoint_id, cause.message, older[-1] if older else None)


def quarantine(store: ManifestStore, last: Manifest | None, cause: BaseException) -> None:
    """Quarantine the last checkpoint, whose state cannot be read, so that the one before is used."""
    if last is None or last.job_id != store.job_id:
        return
    try:
        before = store.quarantine(last.checkpoint_id)
    except CheckpointError as failure:  # storage error: the restart strategy decides
        _log.warning("cannot quarantine checkpoint %d: %s", last.checkpoint_id, failure)
        return
    if before is not None:
        warn_of_fallback(last.checkpoint_id, getattr(cause, "message", str(cause)), before)


def dispose_of_claimed(checkpoints: CheckpointSettings, manifest: Manifest) -> bool:
    """Delete the claimed savepoint once the job's own checkpoint does not need it; return whether it was deleted."""
    path = checkpoints.restore_path
    if checkpoints.claimed and path is not None:
        if manifest.needs_other_jobs:
            return False
        if is_savepoint(path):
            dispose_savepoint(path)
    return True
