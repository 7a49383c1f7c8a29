"""Where a job starts from: its own checkpoints, a savepoint, another job's checkpoint, or nothing."""

from __future__ import annotations

from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import ManifestStore, resolve_restore_path
from penstock.jobmanager.job import CheckpointSettings
from penstock.savepoint.reader import dispose_savepoint, is_savepoint, read_savepoint


def find_start(store: ManifestStore, checkpoints: CheckpointSettings) -> Manifest | None:
    """Return the job's own latest checkpoint, else the one that it is told to start from, else None."""
    own = store.latest()
    path = checkpoints.restore_path
    if own is not None or path is None:
        return own
    return read_savepoint(path) if is_savepoint(path) else resolve_restore_path(path).manifest


def dispose_of_claimed(checkpoints: CheckpointSettings, manifest: Manifest) -> bool:
    """Delete the savepoint that the job was told to claim, if its own checkpoint needs nothing of it; say whether it is gone."""
    path = checkpoints.restore_path
    if checkpoints.claimed and path is not None:
        if manifest.needs_other_jobs:
            return False
        if is_savepoint(path):
            dispose_savepoint(path)
    return True
