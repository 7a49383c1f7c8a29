"""Where a job starts from: its own checkpoints, a savepoint, another job's checkpoint, or nothing."""

from __future__ import annotations

import logging

from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import ManifestStore, resolve_restore_path
from penstock.errors import CheckpointError
from penstock.jobmanager.job import CheckpointSettings
from penstock.savepoint.reader import dispose_savepoint, is_savepoint, read_savepoint

_log = logging.getLogger(__name__)


def find_start(store: ManifestStore, checkpoints: CheckpointSettings) -> Manifest | None:
    """Return the job's own latest checkpoint, else the one that it is told to start from, else None."""
    own = store.latest()
    path = checkpoints.restore_path
    if own is not None or path is None:
        return own
    return read_savepoint(path) if is_savepoint(path) else resolve_restore_path(path).manifest


def set_aside(store: ManifestStore, last: Manifest | None, cause: BaseException) -> None:
    """Go back one checkpoint further, as the state of the last one cannot be read."""
    if last is None or last.job_id != store.job_id:
        return
    try:
        was_set_aside = store.set_aside(last.epoch)
    except CheckpointError as failure:  # storage fails: the restart strategy decides
        _log.warning("checkpoint %d cannot be set aside: %s", last.epoch, failure)
        return
    if was_set_aside:
        _log.warning(
            "checkpoint %d cannot be read: %s. The checkpoint before it is used; output that was committed "
            "since then is written again",
            last.epoch,
            getattr(cause, "message", cause),
        )


def dispose_of_claimed(checkpoints: CheckpointSettings, manifest: Manifest) -> bool:
    """Delete the savepoint that the job was told to claim, if its own checkpoint needs nothing of it; say whether it is gone."""
    path = checkpoints.restore_path
    if checkpoints.claimed and path is not None:
        if manifest.needs_other_jobs:
            return False
        if is_savepoint(path):
            dispose_savepoint(path)
    return True
