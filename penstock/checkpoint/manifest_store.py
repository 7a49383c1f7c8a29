"""The manifests of one job on checkpoint storage.

```
<base>/<job id>/chk-<N>/_metadata   the manifest of epoch N
<base>/<job id>/_latest             the number of the last epoch whose manifest was written
<base>/<job id>/shared/             state files
<base>/<job id>/staging/            sinks' output that waits for its commit
<base>/<job id>/input/              large collections, as sources read them
<base>/<job id>/epochs/             the journal, for `penstock replay`
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
from penstock.checkpoint.storage import CheckpointStorage
from penstock.errors import ArgumentError, CheckpointError, RestoreRefusedError, causes
from penstock.files.paths import split_path

METADATA = "_metadata"
DAMAGED = "_damaged"
LATEST = "_latest"
STAGING = "staging"
INPUT = "input"
EPOCHS = "epochs"

_log = logging.getLogger(__name__)
_TRIES = 10
_METADATA_NAME = re.compile(r"chk-(\d+)/_metadata")
_CHECKPOINT_DIRECTORY = re.compile(r"chk-(\d+)")


class ManifestStore:
    """Writes, finds and deletes the manifests of a job. Writing one is the commit point of its epoch.

    A store that has acquired the job changes nothing any more once another driver has it: what would, raises FencedError.
    """

    _lease: Lease | None = None
    _written = False  # whether this driver has written a manifest

    def __init__(self, base: CheckpointStorage, job_id: str, signer: Signer | None = None) -> None:
        if not job_id or "/" in job_id or job_id.startswith("."):
            raise ArgumentError(f"{job_id!r} cannot be the name of a job's checkpoint directory")
        self.job_id = job_id
        self.storage = base.child(job_id)
        self.signer = signer

    @classmethod
    def at(cls, directory: CheckpointStorage, signer: Signer | None = None) -> ManifestStore:
        """Return the store of a job whose directory is known."""
        store = cls.__new__(cls)
        store.job_id = _last_part(directory)
        store.storage = directory
        store.signer = signer
        return store

    @property
    def staging(self) -> str:
        """The directory (path or URI) for output that waits for its commit."""
        return self.storage.path(STAGING)

    # The lease

    def acquire(
        self,
        job_name: str,
        *,
        leader: int | None = None,
        stale_after_s: float = DEFAULT_STALE_AFTER_S,
    ) -> None:
        """Become the one driver of the job; raises FencedError if another one is. Call it before anything else.

        `leader` is the token of an elected leader, which has the job before all that were elected earlier.
        """
        self._lease = acquire(self.storage, job_name, leader=leader, stale_after_s=stale_after_s)

    def check_lease(self) -> None:
        """Raise FencedError if the job was acquired and another driver has it now."""
        if self._lease is not None:
            self._lease.check()

    @property
    def contested(self) -> bool:
        """Whether the driver before this one may still write the manifest of its epoch, because it stood still before.

        Until this driver has written one itself: then there is one for that epoch.
        """
        return self._lease is not None and self._lease.contested and not self._written

    def release(self) -> None:
        """Let another driver have the job; does nothing if it was not acquired."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    # Manifests

    def write(self, manifest: Manifest) -> None:
        """Make a manifest durable, all of it or nothing.

        Writing the same manifest again changes nothing. A different one under the same epoch is refused: then another
        driver runs this job too. On a local file system, of two that write at the same moment one is refused.
        """
        self.check_lease()
        self._write(manifest)
        # Before its output is committed: a committed epoch without a manifest is noticed.
        self._point_at(manifest.epoch)

    def _write(self, manifest: Manifest) -> None:
        name = _metadata_name(manifest.epoch)
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
            _log.warning("%s: it is written anew", error.message)
            self.check_lease()
            self.storage.write_atomic(name, data)
            return
        self.check_lease()
        raise CheckpointExistsError(
            f"checkpoint {manifest.epoch} of job {self.job_id} exists already",
            detail=f"'{self.storage.path(name)}' was written by another run of the job",
            hint="stop the other run, or start this one under a new job id",
        )

    def read(self, epoch: int) -> Manifest:
        """Return the manifest of an epoch."""
        name = _metadata_name(epoch)
        path = self.storage.path(name)
        manifest = decode(self.storage.read(name), path, self.signer)
        if self.signer is not None and manifest.epoch != epoch:
            raise SignatureError(
                f"'{path}' is the manifest of checkpoint {manifest.epoch}",
                detail="it was signed for another place than it is in",
                hint="do not use it: somebody has put it there",
            )
        return manifest

    def list_epochs(self) -> list[int]:
        """Return the epochs that have a manifest, in order, readable or not."""
        found = (_METADATA_NAME.fullmatch(name) for name in self.storage.list("chk-"))
        return sorted(int(match.group(1)) for match in found if match)

    def read_all(self) -> list[Manifest]:
        """Return all readable manifests, oldest first; a damaged one is left out with a warning."""

        def read(epoch: int) -> Manifest | None:
            try:
                return self.read(epoch)
            except DamagedManifestError as error:
                _log.warning("%s: it is left out", error.message)
                return None

        found = self.storage.each(read, self.list_epochs())
        return [manifest for manifest in found if manifest is not None]

    def last_epoch(self) -> int | None:
        """Return the last epoch whose manifest was written, be it there or not; None if there never was one."""
        # In this order: a driver that is running writes the manifest first, and deletes older ones afterwards.
        pointed = self._pointed_at()
        epochs = self.list_epochs()
        return max([*epochs[-1:], *([] if pointed is None else [pointed])], default=None)

    def latest(self, *, allow_fallback: bool = False) -> Manifest | None:
        """Return the last manifest that was written, or None if the job has no checkpoint.

        If it is damaged or gone, that is an error: its output is published, and whoever starts from an older one publishes it
        again. With `allow_fallback` that is wanted: the newest one that can be read is used, and those after it are set aside.
        """
        last = self.last_epoch()
        if last is None:
            return None
        try:
            return self.read(last)
        except DamagedManifestError as error:
            problem = error.message
        except CheckpointError as error:
            if not _is_missing(error):
                raise
            problem = f"its manifest '{self.storage.path(_metadata_name(last))}' is gone"
        older = [epoch for epoch in self.list_epochs() if epoch < last]
        before = next(filter(None, map(self._read_if_whole, reversed(older))), None)
        if before is None or not allow_fallback:
            raise self.cannot_restore(last, problem, None if before is None else before.epoch)
        warn_of_fallback(last, problem, before.epoch)
        for epoch in self.list_epochs():
            if epoch > before.epoch:
                self._set_aside(epoch)
        self._point_at(before.epoch)
        return before

    def cannot_restore(
        self, epoch: int, problem: str, before: int | None
    ) -> UnreadableCheckpointError:
        """Say why the last checkpoint of the job cannot be restored, and what it would mean to use the one before."""
        if before is None:
            rest = "There is no checkpoint before it that can be read"
            way_out = ""
        else:
            count = epoch - before
            epochs, have = f"{count} epochs, {before + 1} to {epoch},", "they have"
            if count == 1:
                epochs, have = f"epoch {epoch}", "it has"
            rest = (
                f"The last one before it is checkpoint {before}: to go back to it means to run {epochs} again and to "
                f"publish what {have} published already"
            )
            way_out = "; if that is wanted, set penstock.recovery.allow-fallback to true"
        return UnreadableCheckpointError(
            f"checkpoint {epoch} of job {self.job_id}, its last one, cannot be restored",
            detail=f"{problem}. {rest}",
            hint=f"put the file back from a copy, or start a new job from a savepoint{way_out}",
        )

    def _read_if_whole(self, epoch: int) -> Manifest | None:
        try:
            return self.read(epoch)
        except CheckpointError as error:
            if not isinstance(error, DamagedManifestError) and not _is_missing(error):
                raise
            return None

    def _point_at(self, epoch: int) -> None:
        # No fsync, it would double the time of a commit: a power cut may bring back an older mark, which marks less.
        marks = CheckpointStorage(self.storage.base, sync=False)
        marks.write_atomic(LATEST, b'{"epoch":%d}\n' % epoch)

    def _pointed_at(self) -> int | None:
        try:
            return int(json.loads(self.storage.read(LATEST))["epoch"])
        except CheckpointError as error:
            if not _is_missing(error):
                raise
        except (ValueError, KeyError, TypeError):
            _log.warning("'%s' cannot be read", self.storage.path(LATEST))
        return None

    def delete(self, epoch: int) -> None:
        """Delete the manifest of an epoch; its state files stay."""
        self.check_lease()
        self.storage.delete_tree(f"chk-{epoch}")

    def set_aside(self, epoch: int) -> int | None:
        """Give up a checkpoint whose state cannot be read, if there is one before it; return that.

        Its manifest stays beside, as `_damaged`, for whoever wants to find out what happened.
        """
        self.check_lease()
        older = [before for before in self.list_epochs() if before < epoch]
        if not older:
            return None
        self._set_aside(epoch)
        self._point_at(older[-1])
        return older[-1]

    def _set_aside(self, epoch: int) -> None:
        self.check_lease()
        name = _metadata_name(epoch)
        self.storage.write_atomic(f"chk-{epoch}/{DAMAGED}", self.storage.read(name))
        self.storage.delete(name)

    def sweep_checkpoints(self) -> None:
        """Delete what drivers that were killed left of checkpoints: directories without a manifest, unfinished marks of the last one.

        Where there is a newer checkpoint nobody will write a manifest any more: the directory goes with hidden files in it.
        Elsewhere it goes only if it is empty. What was set aside stays. A failure is no more than a warning.
        """
        self.check_lease()
        try:
            epochs = self.list_epochs()
            for name in self.storage.list_directories("chk-"):
                match = _CHECKPOINT_DIRECTORY.fullmatch(name)
                if match is None or int(match.group(1)) in epochs:
                    continue
                if epochs and int(match.group(1)) < epochs[-1]:
                    if not self.storage.list(f"{name}/"):
                        self.storage.delete_tree(name)
                else:
                    self.storage.delete_empty(name)
            self.storage.each(self.storage.delete, self.storage.list_unfinished(LATEST))
        except CheckpointError as error:
            _log.warning("what is left of old checkpoints could not be deleted: %s", error.message)

    def delete_files(self, names: tuple[str, ...]) -> None:
        """Delete state files."""
        self.check_lease()
        self.storage.each(self.storage.delete, names)

    def delete_working_files(self) -> None:
        """Delete what only a running job needs: staged output and input blocks. Checkpoints stay."""
        self.check_lease()
        for name in (STAGING, INPUT):
            self.storage.delete_tree(name)

    def delete_all(self) -> None:
        """Delete everything of the job, its checkpoints and its lease too."""
        self.delete_working_files()
        self.storage.delete_tree(SHARED)
        self.storage.delete_tree(EPOCHS)
        for directory in self.storage.list_directories("chk-"):
            self.storage.delete_tree(directory)
        self.storage.delete(LATEST)
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release(forget=True)

    def list_state_files(self) -> list[str]:
        """Return the names of all state files, needed or not."""
        return self.storage.list(f"{SHARED}/")


def warn_of_fallback(epoch: int, problem: str, before: int) -> None:
    """Tell that a checkpoint before the last one is used, because that is allowed."""
    _log.warning(
        "checkpoint %d cannot be restored: %s. The checkpoint before it is used, %d: what was published since then is "
        "published again",
        epoch,
        problem,
        before,
    )


class UnreadableCheckpointError(RestoreRefusedError):
    """The last checkpoint of a job is damaged or gone."""


class CheckpointExistsError(CheckpointError):
    """Another run of the job has written the checkpoint that this one was to write."""


class CheckpointDeletedError(CheckpointError):
    """A checkpoint was deleted while it was read: the job that wrote it runs, and has newer ones."""


@contextmanager
def noticing_deletion(directory: str, epoch: int | None) -> Iterator[None]:
    """Tell a state file that is missing because its checkpoint was deleted from one that is lost.

    `directory` is the job's. Retention deletes the manifest before the files: if that is there, the checkpoint is damaged.
    """
    try:
        yield
    except CheckpointError as error:
        if epoch is None or not _is_missing(error):
            raise
        if CheckpointStorage(directory).exists(_metadata_name(epoch)):
            raise
        raise CheckpointDeletedError(
            f"checkpoint {epoch} was deleted while it was read",
            detail=f"its job, in '{directory}', has newer checkpoints and keeps only the last ones",
            hint="read the newest one again; for more time raise execution.checkpointing.num-retained, or take a savepoint",
        ) from error


def _is_missing(error: BaseException | None) -> bool:
    return any(isinstance(each, FileNotFoundError | NotADirectoryError) for each in causes(error))


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """A checkpoint to start from: the directory of the job that wrote it, and the manifest with absolute file names."""

    directory: str
    manifest: Manifest


def find_checkpoint(path: str, signer: Signer | None = None) -> tuple[ManifestStore, int | None]:
    """Return the store of the job that a path or URI is of, and the epoch that it names: chk-N, or the manifest in it."""
    named = CheckpointStorage(path)
    if _last_part(named) == METADATA:
        named = _parent(named)
    chosen = _CHECKPOINT_DIRECTORY.fullmatch(_last_part(named))
    if chosen is None:
        return ManifestStore.at(named, signer), None
    return ManifestStore.at(_parent(named), signer), int(chosen.group(1))


def resolve_restore_path(path: str, signer: Signer | None = None) -> RestorePoint:
    """Find the checkpoint that a path or URI means: a job's directory (its latest), a chk-N directory, or its manifest.

    The job may run and delete checkpoints meanwhile: then a newer one is its latest.
    """
    store, epoch = find_checkpoint(path, signer)
    if epoch is None:
        manifest = _latest_of_running(store)
    else:
        with noticing_deletion(store.storage.base, epoch):
            manifest = store.read(epoch) if epoch in store.list_epochs() else None
    if manifest is None:
        raise CheckpointError(
            f"there is no checkpoint at '{path}'",
            detail=f"it is neither a job's directory with chk-N/{METADATA} in it nor a chk-N directory",
            hint="give <checkpoint directory>/<job id> or <checkpoint directory>/<job id>/chk-<N>",
        )
    return RestorePoint(store.storage.base, manifest.relocated(store.storage))


def _latest_of_running(store: ManifestStore) -> Manifest | None:
    for _ in range(_TRIES):
        last = store.last_epoch()
        if last is None:
            return None
        try:
            return store.read(last)
        except CheckpointError:
            if store.last_epoch() == last:
                return store.latest()  # it says what is wrong
    raise CheckpointDeletedError(
        f"the checkpoints of job {store.job_id} are deleted faster than they can be read",
        detail=f"{_TRIES} of them went while they were read",
        hint="raise execution.checkpointing.num-retained, or take a savepoint and read that",
    )


def _last_part(storage: CheckpointStorage) -> str:
    return split_path(storage.base)[1]


def _parent(storage: CheckpointStorage) -> CheckpointStorage:
    return CheckpointStorage(split_path(storage.base)[0])


def _metadata_name(epoch: int) -> str:
    return f"chk-{epoch}/{METADATA}"
