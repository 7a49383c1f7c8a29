"""Takes savepoints of completed checkpoints, in the background or at the end of the job."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.signing import Signer
from penstock.checkpoint.storage import SAVEPOINT_WORDS, CheckpointFileSystem
from penstock.errors import ArgumentError
from penstock.jobmanager.requests import SavepointRequest
from penstock.savepoint.operator_states import operator_states
from penstock.savepoint.state_io import SnapshotStateIO
from penstock.savepoint.writer import write_savepoint

_log = logging.getLogger(__name__)
#: Names of SQL operators end with their number in the plan, except for sources of inline rows. Programs cannot set their uid.
_SQL_OPERATOR = re.compile(r"\[\d+\]$|^Source: (Elements|DataFrame)$")

RunAll = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]


def savepoint_target(given: str | None, default: str | None) -> str:
    """Return the target directory of a savepoint."""
    target = given if given is not None else default
    if not target:
        raise ArgumentError(
            "a savepoint needs a directory",
            hint="give one, or set execution.checkpointing.savepoint-dir",
        )
    return target


class SavepointService:
    """Writes savepoints. Their checkpoints are pinned while they are written, so that the job can continue."""

    def __init__(
        self, state_io: SnapshotStateIO, run: RunAll, signer: Signer | None = None
    ) -> None:
        self._state_io = state_io
        self._signer = signer
        self._run = run
        self._running: list[tuple[int, threading.Thread]] = []
        self.last: str | None = None

    def take(
        self, request: SavepointRequest, manifest: Manifest, waiting: Mapping[str, Any]
    ) -> Exception | None:
        """Write a savepoint now; the result of the request is its path, or the error, which is returned as well.

        `waiting` is the output that the committers of the manifest's sinks hold back.
        """
        try:
            _warn_of_missing_uids(manifest)
            path = write_savepoint(
                manifest,
                self._state_io,
                request.target,
                drained=request.drains,
                waiting=manifest.settled_commits(waiting),
                run=self._run,
                signer=self._signer,
            )
        except Exception as error:  # noqa: BLE001 - reported to the request; the job is not affected
            request.result.set_exception(error)
            return error
        self.last = path
        request.result.set_result(path)
        return None

    def take_in_background(
        self, request: SavepointRequest, manifest: Manifest, coordinator: CheckpointCoordinator
    ) -> None:
        """Write a savepoint while the job continues."""
        coordinator.pin(manifest.checkpoint_id)
        thread = threading.Thread(
            target=self.take,
            args=(request, manifest, coordinator.returned),
            name="penstock-savepoint",
            daemon=True,
        )
        self._running.append((manifest.checkpoint_id, thread))
        thread.start()

    def pin_again(self, coordinator: CheckpointCoordinator) -> None:
        """Pin the checkpoints of unfinished savepoints in the coordinator of another plan."""
        for checkpoint_id, _ in self._running:
            coordinator.pin(checkpoint_id)

    @staticmethod
    def check_target(request: SavepointRequest) -> Exception | None:
        """Return why the target directory is not writable, or None if it is."""
        try:
            CheckpointFileSystem(request.target, words=SAVEPOINT_WORDS).probe()
        except Exception as error:  # noqa: BLE001 - reported to the request; the job is not affected
            return error
        return None

    def release(self, coordinator: CheckpointCoordinator) -> None:
        """Unpin the checkpoints of finished savepoints."""
        for entry in list(self._running):
            checkpoint_id, thread = entry
            if not thread.is_alive():
                self._running.remove(entry)
                coordinator.unpin(checkpoint_id)

    def wait(self) -> None:
        """Wait for all unfinished savepoints."""
        for _, thread in self._running:
            thread.join()


def _warn_of_missing_uids(manifest: Manifest) -> None:
    held = operator_states(manifest)
    nameless = [
        operator.name
        for name, operator in manifest.operators.items()
        if operator.uid is None
        and _SQL_OPERATOR.search(operator.name) is None
        and (operator.is_stateful or name in manifest.sources or name in held)
    ]
    if nameless:
        _log.warning(
            "the savepoint has state of operators without a uid: %s. It can only be restored if the structure of the program "
            "does not change; call .uid(...) on them",
            ", ".join(f"'{name}'" for name in nameless),
        )
