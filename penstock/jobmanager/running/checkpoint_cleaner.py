"""Deletes files that no checkpoint needs any more."""

from __future__ import annotations

import logging
from collections import deque

from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.messages import DeleteCheckpoint, DeleteFiles, DeleteOrphans
from penstock.checkpoint.retention import unneeded_files
from penstock.errors import CheckpointError, FencedError

_log = logging.getLogger(__name__)

Deletion = DeleteCheckpoint | DeleteFiles | DeleteOrphans


class CheckpointCleaner:
    """Deletes in order. A failed deletion does not fail the checkpoint, which is complete already."""

    def __init__(self, store: ManifestStore) -> None:
        self._store = store
        self._left: deque[Deletion] = deque()  # failed deletions, to be retried

    def forget(self) -> None:
        """Discard the failed deletions."""
        self._left.clear()

    def delete(self, deletion: Deletion) -> None:
        """Delete this after earlier failed deletions; failures are retried with the next one."""
        self._left.append(deletion)
        try:
            while self._left:
                self._carry_out(self._left[0])
                self._left.popleft()
        except FencedError:
            raise
        except CheckpointError as error:
            _log.warning("%s; will retry after the next checkpoint", error.message)

    def _carry_out(self, deletion: Deletion) -> None:
        match deletion:
            case DeleteCheckpoint(checkpoint_id):
                self._store.delete(checkpoint_id)
            case DeleteFiles(names):
                self._store.delete_files(names)
            case DeleteOrphans(up_to_checkpoint_id, needed):
                files = self._store.list_state_files()
                self._store.delete_files(tuple(unneeded_files(files, needed, up_to_checkpoint_id)))
