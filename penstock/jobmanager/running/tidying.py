"""Deletes what checkpoints need no more."""

from __future__ import annotations

import logging
from collections import deque

from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.messages import DeleteCheckpoint, DeleteFiles, DeleteOrphans
from penstock.checkpoint.retention import unneeded_files
from penstock.errors import CheckpointError, FencedError

_log = logging.getLogger(__name__)

Deletion = DeleteCheckpoint | DeleteFiles | DeleteOrphans


class Tidying:
    """Deletes in order. The checkpoint is complete: storage that cannot delete is no reason to repeat it."""

    def __init__(self, store: ManifestStore) -> None:
        self._store = store
        self._left: deque[Deletion] = deque()  # what could not be deleted yet

    def forget(self) -> None:
        """Begin anew: what is there is looked for."""
        self._left.clear()

    def delete(self, deletion: Deletion) -> None:
        """Delete this, after what is left of before; what fails is tried again with the next."""
        self._left.append(deletion)
        try:
            while self._left:
                self._carry_out(self._left[0])
                self._left.popleft()
        except FencedError:
            raise
        except CheckpointError as error:
            _log.warning("%s; it is tried again after the next checkpoint", error.message)

    def _carry_out(self, deletion: Deletion) -> None:
        match deletion:
            case DeleteCheckpoint(epoch):
                self._store.delete(epoch)
            case DeleteFiles(names):
                self._store.delete_files(names)
            case DeleteOrphans(up_to_epoch, needed):
                files = self._store.list_state_files()
                self._store.delete_files(tuple(unneeded_files(files, needed, up_to_epoch)))
