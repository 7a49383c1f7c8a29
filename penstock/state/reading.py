"""Opens snapshots by path."""

from __future__ import annotations

import os

from penstock.checkpoint.manifest_store import resolve_restore_path
from penstock.checkpoint.signing import Signer
from penstock.errors import ArgumentTypeError
from penstock.savepoint.reader import is_savepoint, read_savepoint
from penstock.state.snapshot import Snapshot


def read(path: str | os.PathLike[str], *, signed: bool = True) -> Snapshot:
    """Open a snapshot of a job: its checkpoint directory (the latest one), one `chk-N` directory, or a savepoint.

    A path, or a URI that `pyarrow.fs` opens. Neither Spark nor the job's program is needed; classes of objects in the
    state must be
    importable when their values are read. With PENSTOCK_SIGNING_KEY_FILE in the environment, only snapshots signed with
    that key are read;
    `signed=False` skips the check, if you trust everyone who can write there.
    """
    if not isinstance(path, str | os.PathLike):
        raise ArgumentTypeError(f"path must be a str, got {type(path).__name__}")
    text = os.fspath(path)
    signer = Signer.from_environment() if signed else None
    if is_savepoint(text):
        return Snapshot(text, "savepoint", text, read_savepoint(text, signer))
    point = resolve_restore_path(text, signer)
    return Snapshot(text, "checkpoint", point.directory, point.manifest)
