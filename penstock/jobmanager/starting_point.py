"""Where a job starts from: its own checkpoints, a savepoint, another job's checkpoint, or nothing."""

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
from penstock.checkpoint.storage import CheckpointStorage
from penstock.common.job_id import JobID
from penstock.errors import ArgumentError, CheckpointError, RestoreRefusedError
from penstock.files.paths import normalize, split_path
from penstock.jobmanager.job import CheckpointSettings
from penstock.savepoint.metadata import STATE
from penstock.savepoint.reader import dispose_savepoint, is_savepoint, read_savepoint

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a path to start from means: a snapshot that a new job starts from, or a job that goes on in its directory."""

    snapshot: str | None = None
    job_id: str | None = None
    directory: str | None = None


def find_recovery(path: str) -> Recovery:
    """Find what a path names; raises RestoreRefusedError if that is nothing to start from. Writes nothing.

    The directory of a job is that job again: it goes on under the same id, in the same directory. A savepoint or one checkpoint
    (`.../chk-7`) is where a new job starts.
    """
    path = normalize(path, "the path to start from")
    if is_savepoint(path):
        return Recovery(snapshot=path)
    store, epoch = find_checkpoint(path)
    if epoch is not None:
        if epoch not in store.list_epochs():
            raise _nothing_at(path)
        return Recovery(snapshot=path)
    if store.last_epoch() is None:
        raise _nothing_at(path)
    parent, name = split_path(path)
    try:
        JobID.from_hex_string(name)
    except ArgumentError as error:
        raise RestoreRefusedError(
            f"'{path}' is not the directory of a job",
            detail=f"it has checkpoints, and its name, '{name}', is no job id",
            hint="give it the name that it had, or start a new job from one of its checkpoints, .../chk-<N>",
        ) from error
    return Recovery(job_id=name, directory=parent)


def _nothing_at(path: str) -> RestoreRefusedError:
    place = CheckpointStorage(path)
    if not place.exists():
        problem = "the path does not exist"
    elif place.list(f"{STATE}/"):
        problem = f"it is a savepoint without its {METADATA}: it was never completed, or the file was deleted"
    else:
        problem = (
            f"it has neither the {METADATA} of a savepoint nor checkpoints, chk-<N>/{METADATA}"
        )
    return RestoreRefusedError(
        f"there is nothing to start from at '{path}'",
        detail=problem,
        hint="give a savepoint, <checkpoint directory>/<job id>, or .../chk-<N>; to start from nothing, leave "
        "execution.state-recovery.path out. A job that is to start if it is new, and to go on if not, has a penstock.job-id",
    )


def find_start(store: ManifestStore, checkpoints: CheckpointSettings) -> Manifest | None:
    """Return the job's own latest checkpoint, else the one that it is told to start from, else None."""
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
    """Return why a job does not go on if the state of its last checkpoint cannot be read; None if it may, or failed of else."""
    if not isinstance(cause, DamagedStateError) or last is None or last.job_id != store.job_id:
        return None
    try:
        older = [epoch for epoch in store.list_epochs() if epoch < last.epoch]
    except CheckpointError:  # storage fails: the restart strategy decides
        return None
    if older and checkpoints.allow_fallback:
        return None
    return store.cannot_restore(last.epoch, cause.message, older[-1] if older else None)


def set_aside(store: ManifestStore, last: Manifest | None, cause: BaseException) -> None:
    """Go back one checkpoint further, as the state of the last one cannot be read."""
    if last is None or last.job_id != store.job_id:
        return
    try:
        before = store.set_aside(last.epoch)
    except CheckpointError as failure:  # storage fails: the restart strategy decides
        _log.warning("checkpoint %d cannot be set aside: %s", last.epoch, failure)
        return
    if before is not None:
        warn_of_fallback(last.epoch, getattr(cause, "message", str(cause)), before)


def dispose_of_claimed(checkpoints: CheckpointSettings, manifest: Manifest) -> bool:
    """Delete the savepoint that the job was told to claim, if its own checkpoint needs nothing of it; say whether it is gone."""
    path = checkpoints.restore_path
    if checkpoints.claimed and path is not None:
        if manifest.needs_other_jobs:
            return False
        if is_savepoint(path):
            dispose_savepoint(path)
    return True
