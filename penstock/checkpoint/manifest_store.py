"""The manifests of one job on checkpoint storage.

```
<base>/<job id>/chk-<N>/_metadata   the manifest of checkpoint N
<base>/<job id>/_latest             the id of the last checkpoint whose manifest was written
<base>/<job id>/shared/             state files
<base>/<job id>/staging/            sink output waiting for its commit
<base>/<job id>/input/              large collections, as read by sources
<base>/<job id>/journal/             the journal, for `penstock replay`
<base>/<job id>/.lock, lease/, leader/   which driver runs the job
```
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.checkpoint.handles import SHARED
from penstock.checkpoint.lease import DEFAULT_STALE_AFTER_S, Lease, acquire
from penstock.checkpoint.manifest import DamagedManifestError, Manifest, decode, encode
from penstock.checkpoint.signing import SignatureError, Signer
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import ArgumentError, CheckpointError, RestoreRefusedError, causes
from penstock.files.paths import split_path

METADATA = "_metadata"
DAMAGED = "_damaged"
LATEST = "_latest"
STAGING = "staging"
INPUT = "input"
JOURNAL = "journal"

_log = logging.getLogger(__name__)
_TRIES = 10
_METADATA_NAME = re.compile(r"chk-(\d+)/_metadata")
_CHECKPOINT_DIRECTORY = re.compile(r"chk-(\d+)")


class ManifestStore:
    """Writes, finds and deletes the manifests of a job. Writing a manifest is the commit point of its checkpoint.

    A store that has acquired the job raises FencedError instead of changing anything once another driver owns the job.
    """

    _lease: Lease | None = None
    _written = False  # whether this driver has written a manifest

    def __init__(
        self, base: CheckpointFileSystem, job_id: str, signer: Signer | None = None
    ) -> None:
        if not job_id or "/" in job_id or job_id.startswith("."):
            raise ArgumentError(f"invalid job id {job_id!r} for a checkpoint directory")
        self.job_id = job_id
        self.storage = base.child(job_id)
        self.signer = signer

    @classmethod
    def at(cls, directory: CheckpointFileSystem, signer: Signer | None = None) -> ManifestStore:
        """Return the store of a job by its directory."""
        store = cls.__new__(cls)
        store.job_id = _last_part(directory)
        store.storage = directory
        store.signer = signer
        return store

    @property
    def staging(self) -> str:
        """The directory (path or URI) for output waiting for its commit."""
        return self.storage.path(STAGING)

    # Lease.

    def acquire(
        self,
        job_name: str,
        *,
        leader: int | None = None,
        stale_after_s: float = DEFAULT_STALE_AFTER_S,
    ) -> None:
        """Become the only driver of the job; raises FencedError if there is another one. Call it before anything else.

        `leader` is the token of an elected leader, which takes precedence over all earlier leaders.
        """
        self._lease = acquire(self.storage, job_name, leader=leader, stale_after_s=stale_after_s)

    def check_lease(self) -> None:
        """Raise FencedError if the job was acquired and another driver owns it now."""
        if self._lease is not None:
            self._lease.check()

    @property
    def contested(self) -> bool:
        """Whether the previous driver may still write the manifest of its checkpoint, because it was hanging.

        Only until this driver has written one itself: then that checkpoint exists.
        """
        return self._lease is not None and self._lease.contested and not self._written

    def release(self) -> None:
        """Release the job for other drivers; does nothing if it was not acquired."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    # Manifests.

    def write(self, manifest: Manifest) -> None:
        """Write a manifest durably and atomically.

        Writing the same manifest again changes nothing. A different one with the same checkpoint id is rejected: then another
        driver runs this job too. On a local file system, of two concurrent writers one is rejected.
        """
        self.check_lease()
        self._write(manifest)
        # Before its output is committed, so that a committed checkpoint without a manifest is noticed.
        self._point_at(manifest.checkpoint_id)

    def _write(self, manifest: Manifest) -> None:
        name = _metadata_name(manifest.checkpoint_id)
        data = encode(manifest, self.signer)
        if self.storage.create(name, data):
            self._written = True
            return
        found = self.storage.read(name)
        if found == data:
            return
        try:
            decode(found, self.storage.path(name), self.signer)
        except DamagedManifestError as error:
            _log.warning("%s: writing it again", error.message)
            self.check_lease()
            self.storage.write_atomic(name, data)
            return
        self.check_lease()
        raise CheckpointExistsError(
            f"checkpoint {manifest.checkpoint_id} of job {self.job_id} already exists",
            detail=f"'{self.storage.path(name)}' was written by another run of the job",
            hint="stop the other run, or start this one under a new job id",
        )

    def read(self, checkpoint_id: int) -> Manifest:
        """Return the manifest of a checkpoint."""
        name = _metadata_name(checkpoint_id)
        path = self.storage.path(name)
        manifest = decode(self.storage.read(name), path, self.signer)
        if self.signer is not None and manifest.checkpoint_id != checkpoint_id:
            raise SignatureError(
                f"'{path}' is the manifest of checkpoint {manifest.checkpoint_id}",
                detail="it was signed for another location",
                hint="do not use it: it was copied or moved there",
            )
        return manifest

    def list_checkpoint_ids(self) -> list[int]:
        """Return the ids of checkpoints that have a manifest, in order, readable or not."""
        found = (_METADATA_NAME.fullmatch(name) for name in self.storage.list("chk-"))
        return sorted(int(match.group(1)) for match in found if match)

    def read_all(self) -> list[Manifest]:
        """Return all readable manifests, oldest first; a damaged one is skipped with a warning."""

        def read(checkpoint_id: int) -> Manifest | None:
            try:
                return self.read(checkpoint_id)
            except DamagedManifestError as error:
                _log.warning("%s: skipping it", error.message)
                return None

        found = self.storage.each(read, self.list_checkpoint_ids())
        return [manifest for manifest in found if manifest is not None]

    def last_checkpoint_id(self) -> int | None:
        """Return the id of the last checkpoint whose manifest was written, existing or not; None if there never was one."""
        # In this order: a running driver writes the manifest first and deletes older ones afterwards.
        pointed = self._pointed_at()
        checkpoint_ids = self.list_checkpoint_ids()
        return max([*checkpoint_ids[-1:], *([] if pointed is None else [pointed])], default=None)

    def latest(self, *, allow_fallback: bool = False) -> Manifest | None:
        """Return the last manifest that was written, or None if the job has no checkpoint.

        If it is damaged or missing, that is an error: its output is published, and a restore from an older one would
        publish it again.
        `allow_fallback` permits that: the newest readable one is used, and later ones are quarantined.
        """
        last = self.last_checkpoint_id()
        if last is None:
            return None
        try:
            return self.read(last)
        except DamagedManifestError as error:
            problem = error.message
        except CheckpointError as error:
            if not _is_missing(error):
                raise
            problem = f"its manifest '{self.storage.path(_metadata_name(last))}' is missing"
        older = [
            checkpoint_id for checkpoint_id in self.list_checkpoint_ids() if checkpoint_id < last
        ]
        before = next(filter(None, map(self._read_if_whole, reversed(older))), None)
        if before is None or not allow_fallback:
            raise self.cannot_restore(
                last, problem, None if before is None else before.checkpoint_id
            )
        warn_of_fallback(last, problem, before.checkpoint_id)
        for checkpoint_id in self.list_checkpoint_ids():
            if checkpoint_id > before.checkpoint_id:
                self._quarantine(checkpoint_id)
        self._point_at(before.checkpoint_id)
        return before

    def cannot_restore(
        self, checkpoint_id: int, problem: str, before: int | None
    ) -> UnreadableCheckpointError:
        """Return the error for a last checkpoint that cannot be restored; it explains what falling back would mean."""
        if before is None:
            rest = "There is no readable checkpoint before it"
            way_out = ""
        else:
            count = checkpoint_id - before
            checkpoint_ids, have = (
                f"{count} checkpoint intervals, {before + 1} to {checkpoint_id},",
                "they have",
            )
            if count == 1:
                checkpoint_ids, have = f"checkpoint interval {checkpoint_id}", "it has"
            rest = (
                f"The last one before it is checkpoint {before}: restoring it runs {checkpoint_ids} again and "
                f"publishes again what {have} already published"
            )
            way_out = "; to accept that, set penstock.recovery.allow-fallback to true"
        return UnreadableCheckpointError(
            f"checkpoint {checkpoint_id} of job {self.job_id}, its latest, cannot be restored",
            detail=f"{problem}. {rest}",
            hint=f"restore the file from a backup, or start a new job from a savepoint{way_out}",
        )

    def _read_if_whole(self, checkpoint_id: int) -> Manifest | None:
        try:
            return self.read(checkpoint_id)
        except CheckpointError as error:
            if not isinstance(error, DamagedManifestError) and not _is_missing(error):
                raise
            return None

    def _point_at(self, checkpoint_id: int) -> None:
        # No fsync, which would double the time of a commit: after a power cut the marker may be an older one, which is safe.
        marks = CheckpointFileSystem(self.storage.base, sync=False)
        marks.write_atomic(LATEST, b'{"checkpoint_id":%d}\n' % checkpoint_id)

    def _pointed_at(self) -> int | None:
        try:
            return int(json.loads(self.storage.read(LATEST))["checkpoint_id"])
        except CheckpointError as error:
            if not _is_missing(error):
                raise
        except (ValueError, KeyError, TypeError):
            _log.warning("could not read '%s'", self.storage.path(LATEST))
        return None

    def delete(self, checkpoint_id: int) -> None:
        """Delete the manifest of a checkpoint; its state files stay."""
        self.check_lease()
        self.storage.delete_tree(f"chk-{checkpoint_id}")

    def quarantine(self, checkpoint_id: int) -> int | None:
        """Quarantine a checkpoint whose state cannot be read, if there is one before it; return that one.

        Its manifest is kept as `_damaged` for analysis.
        """
        self.check_lease()
        older = [before for before in self.list_checkpoint_ids() if before < checkpoint_id]
        if not older:
            return None
        self._quarantine(checkpoint_id)
        self._point_at(older[-1])
        return older[-1]

    def _quarantine(self, checkpoint_id: int) -> None:
        self.check_lease()
        name = _metadata_name(checkpoint_id)
        self.storage.write_atomic(f"chk-{checkpoint_id}/{DAMAGED}", self.storage.read(name))
        self.storage.delete(name)

    def sweep_checkpoints(self) -> None:
        """Delete remains of killed drivers: checkpoint directories without a manifest, and unfinished `_latest` markers.

        If there is a newer checkpoint, no driver will write a manifest any more: the directory is deleted with its hidden
        files.
        Otherwise it is deleted only if it is empty. Quarantined checkpoints are kept. A failure is only logged as a warning.
        """
        self.check_lease()
        try:
            checkpoint_ids = self.list_checkpoint_ids()
            for name in self.storage.list_directories("chk-"):
                match = _CHECKPOINT_DIRECTORY.fullmatch(name)
                if match is None or int(match.group(1)) in checkpoint_ids:
                    continue
                if checkpoint_ids and int(match.group(1)) < checkpoint_ids[-1]:
                    if not self.storage.list(f"{name}/"):
                        self.storage.delete_tree(name)
                else:
                    self.storage.delete_empty(name)
            self.storage.each(self.storage.delete, self.storage.list_unfinished(LATEST))
        except CheckpointError as error:
            _log.warning("could not delete files of old checkpoints: %s", error.message)

    def delete_files(self, names: tuple[str, ...]) -> None:
        """Delete state files."""
        self.check_lease()
        self.storage.each(self.storage.delete, names)

    def delete_working_files(self) -> None:
        """Delete files that only a running job needs: staged output and input blocks. Checkpoints are kept."""
        self.check_lease()
        for name in (STAGING, INPUT):
            self.storage.delete_tree(name)

    def delete_all(self) -> None:
        """Delete everything of the job, including its checkpoints and its lease."""
        self.delete_working_files()
        self.storage.delete_tree(SHARED)
        self.storage.delete_tree(JOURNAL)
        for directory in self.storage.list_directories("chk-"):
            self.storage.delete_tree(directory)
        self.storage.delete(LATEST)
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release(forget=True)

    def list_state_files(self) -> list[str]:
        """Return the names of all state files, referenced or not."""
        return self.storage.list(f"{SHARED}/")


def warn_of_fallback(checkpoint_id: int, problem: str, before: int) -> None:
    """Log that an older checkpoint is used instead of the last one, because fallback is allowed."""
    _log.warning(
        "checkpoint %d cannot be restored: %s. Falling back to checkpoint %d: output published since then is "
        "published again",
        checkpoint_id,
        problem,
        before,
    )


class UnreadableCheckpointError(RestoreRefusedError):
    """The last checkpoint of a job is damaged or missing."""


class CheckpointExistsError(CheckpointError):
    """Another run of the job has already written this checkpoint."""


class CheckpointDeletedError(CheckpointError):
    """A checkpoint was deleted while it was being read: its job is running and has newer ones."""


@contextmanager
def explain_deleted_checkpoint(directory: str, checkpoint_id: int | None) -> Iterator[None]:
    """Distinguish a state file that is missing because its checkpoint was deleted from a lost one.

    `directory` is the job's. Retention deletes the manifest before the files: if the manifest exists, the checkpoint is
    damaged.
    """
    try:
        yield
    except CheckpointError as error:
        if checkpoint_id is None or not _is_missing(error):
            raise
        if CheckpointFileSystem(directory).exists(_metadata_name(checkpoint_id)):
            raise
        raise CheckpointDeletedError(
            f"checkpoint {checkpoint_id} was deleted while it was being read",
            detail=f"its job, in '{directory}', has newer checkpoints and retains only the last ones",
            hint="read the newest one again; to keep checkpoints longer, increase execution.checkpointing.num-retained, or take a savepoint",
        ) from error


def _is_missing(error: BaseException | None) -> bool:
    return any(isinstance(each, FileNotFoundError | NotADirectoryError) for each in causes(error))


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """A checkpoint to start from: the directory of the job that wrote it, and the manifest with absolute file names."""

    directory: str
    manifest: Manifest


def find_checkpoint(path: str, signer: Signer | None = None) -> tuple[ManifestStore, int | None]:
    """Return the store of the job that a path or URI belongs to, and the checkpoint id if it names chk-N or its manifest."""
    named = CheckpointFileSystem(path)
    if _last_part(named) == METADATA:
        named = _parent(named)
    chosen = _CHECKPOINT_DIRECTORY.fullmatch(_last_part(named))
    if chosen is None:
        return ManifestStore.at(named, signer), None
    return ManifestStore.at(_parent(named), signer), int(chosen.group(1))


def resolve_restore_path(path: str, signer: Signer | None = None) -> RestorePoint:
    """Find the checkpoint of a path or URI: a job's directory (its latest), a chk-N directory, or its manifest.

    The job may be running and delete checkpoints: then a newer one is its latest.
    """
    store, checkpoint_id = find_checkpoint(path, signer)
    if checkpoint_id is None:
        manifest = _latest_of_running(store)
    else:
        with explain_deleted_checkpoint(store.storage.base, checkpoint_id):
            manifest = (
                store.read(checkpoint_id) if checkpoint_id in store.list_checkpoint_ids() else None
            )
    if manifest is None:
        raise CheckpointError(
            f"no checkpoint at '{path}'",
            detail=f"it is neither a job's directory with chk-N/{METADATA} in it nor a chk-N directory",
            hint="pass <checkpoint directory>/<job id> or <checkpoint directory>/<job id>/chk-<N>",
        )
    return RestorePoint(store.storage.base, manifest.relocated(store.storage))


def _latest_of_running(store: ManifestStore) -> Manifest | None:
    for _ in range(_TRIES):
        last = store.last_checkpoint_id()
        if last is None:
            return None
        try:
            return store.read(last)
        except CheckpointError:
            if store.last_checkpoint_id() == last:
                return store.latest()  # raises the error that says what is wrong
    raise CheckpointDeletedError(
        f"the checkpoints of job {store.job_id} are deleted faster than they can be read",
        detail=f"{_TRIES} of them were deleted while they were being read",
        hint="increase execution.checkpointing.num-retained, or take a savepoint and read that",
    )


def _last_part(storage: CheckpointFileSystem) -> str:
    return split_path(storage.base)[1]


def _parent(storage: CheckpointFileSystem) -> CheckpointFileSystem:
    return CheckpointFileSystem(split_path(storage.base)[0])


def _metadata_name(checkpoint_id: int) -> str:
    return f"chk-{checkpoint_id}/{METADATA}"
