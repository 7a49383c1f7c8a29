"""State on checkpoint storage: handles, and chains of a full snapshot and its deltas."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from penstock.checkpoint.signing import SignatureError, digest
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import ArgumentError, CheckpointError
from penstock.files.paths import is_absolute

SHARED = "shared"
DEFAULT_INLINE_THRESHOLD = 20 * 1024  # Flink's state.storage.fs.memory-threshold
MIN_COMPACTION_BYTES = 64 * 1024
MAX_DELTAS = 16

SnapshotKind = Literal["full", "delta"]
StateFormat = Literal["pickle", "parquet"]

_STATE_FILE = re.compile(r"(?:.*/)?(\d+)-[^/]*\.(?:state|sst)")
_UNSAFE = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class SharedFile:
    """One file of a database on checkpoint storage; `local` is its name in the database."""

    local: str
    name: str
    size: int
    crc32: int
    sha256: str | None = None  # if checkpoints are signed

    def to_json(self) -> list[Any]:
        """Return the file as JSON data."""
        return [self.local, self.name, self.size, self.crc32, *filter(None, [self.sha256])]


@dataclass(frozen=True, slots=True)
class StateHandle:
    """One snapshot of one subtask's state: the bytes themselves, or the name of their file.

    `key_groups` is (start, end), end excluded. `name` is relative to the job's directory, or absolute if another job
    wrote the file.

    A snapshot of a database has its own name, `snapshot`. Its bytes are the database's small files; the large ones,
    `files`, may be
    shared with earlier snapshots. `base` is the name of the snapshot that the database started from.

    `format` is the format of the bytes: a pickle of tables, or one table (or part of one) as Parquet, as in savepoints.
    `sha256` is
    set if checkpoints are signed and the bytes are in a file.
    """

    kind: SnapshotKind
    size: int
    crc32: int
    key_groups: tuple[int, int]
    data: bytes | None = None
    name: str | None = None
    snapshot: str | None = None
    base: str | None = None
    files: tuple[SharedFile, ...] = ()
    format: StateFormat = "pickle"
    sha256: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in {"full", "delta"}:
            raise ArgumentError(f"snapshot kind must be 'full' or 'delta', got {self.kind!r}")
        if (self.data is None) == (self.name is None):
            raise ArgumentError("a state handle needs either its bytes or a file name")

    @property
    def is_foreign(self) -> bool:
        """Whether a file belongs to another job, which may delete it."""
        return any(is_absolute(name) for name in self.names())

    @property
    def total_size(self) -> int:
        """The size of the snapshot in bytes, including its shared files."""
        return self.size + sum(file.size for file in self.files)

    def names(self) -> list[str]:
        """Return the names of the files it needs."""
        own = [] if self.name is None else [self.name]
        return own + [file.name for file in self.files]

    def relocated(self, directory: CheckpointFileSystem) -> StateHandle:
        """Return the handle with absolute file names, for a job in another directory."""

        def moved(name: str) -> str:
            return name if is_absolute(name) else directory.path(name)

        return replace(
            self,
            name=None if self.name is None else moved(self.name),
            files=tuple(replace(file, name=moved(file.name)) for file in self.files),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the handle as JSON data."""
        where = (
            {"file": self.name}
            if self.data is None
            else {"data": base64.b64encode(self.data).decode()}
        )
        database: dict[str, Any] = {}
        if self.snapshot is not None:
            database = {
                "snapshot": self.snapshot,
                "base": self.base,
                "files": [file.to_json() for file in self.files],
            }
        return {
            "kind": self.kind,
            "size": self.size,
            "crc32": self.crc32,
            "key_groups": list(self.key_groups),
            **({} if self.format == "pickle" else {"format": self.format}),
            **({} if self.sha256 is None else {"sha256": self.sha256}),
            **where,
            **database,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> StateHandle:
        """Read what `to_json` returned."""
        start, end = value["key_groups"]
        data = base64.b64decode(value["data"], validate=True) if "data" in value else None
        return cls(
            kind=value["kind"],
            size=value["size"],
            crc32=value["crc32"],
            key_groups=(start, end),
            data=data,
            name=value.get("file"),
            snapshot=value.get("snapshot"),
            base=value.get("base"),
            files=tuple(SharedFile(*file) for file in value.get("files", ())),
            format=value.get("format", "pickle"),
            sha256=value.get("sha256"),
        )


@dataclass(frozen=True, slots=True)
class StateChain:
    """The state of one operator in one subtask: a full snapshot followed by deltas, oldest first; or empty."""

    handles: tuple[StateHandle, ...] = ()

    def __post_init__(self) -> None:
        kinds = [handle.kind for handle in self.handles]
        if kinds and (kinds[0] != "full" or "full" in kinds[1:]):
            raise ArgumentError(
                "a state chain must be one full snapshot followed by deltas", detail=f"got {kinds}"
            )

    def __iter__(self) -> Iterator[StateHandle]:
        return iter(self.handles)

    def __len__(self) -> int:
        return len(self.handles)

    def append(self, handle: StateHandle) -> StateChain:
        """Return the chain with one more snapshot; a full one starts a new chain."""
        if handle.kind == "full":
            return StateChain((handle,))
        return StateChain((*self.handles, handle))

    def continues(self, other: StateChain) -> bool:
        """Whether this chain may follow `other`: `other` itself, `other` with more deltas, or a new full snapshot."""
        if self.handles[: len(other)] == other.handles:
            return True
        if len(self.handles) != 1:
            return False
        if self.handles[0].base is not None:
            return other.database is not None and other.database.snapshot == self.handles[0].base
        # An inline snapshot may equal an older one by value; a file is written once.
        return self.handles[0].name is None or self.handles[0] not in other.handles

    @property
    def size(self) -> int:
        """The size of all snapshots in bytes."""
        return sum(handle.total_size for handle in self.handles)

    @property
    def database(self) -> StateHandle | None:
        """The database snapshot of the chain, or None if it is of another kind."""
        is_database = bool(self.handles) and self.handles[0].snapshot is not None
        return self.handles[0] if is_database else None

    @property
    def is_savepoint(self) -> bool:
        """Whether part of its state is in savepoint format; a job never appends to such a chain."""
        return any(handle.format != "pickle" for handle in self.handles)

    def files(self) -> list[str]:
        """Return the names of the files it needs."""
        return [name for handle in self.handles for name in handle.names()]

    def relocated(self, directory: CheckpointFileSystem) -> StateChain:
        """Return the chain with absolute file names, for a job in another directory."""
        return StateChain(tuple(handle.relocated(directory) for handle in self.handles))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the chain as JSON data."""
        return [handle.to_json() for handle in self.handles]

    @classmethod
    def from_json(cls, value: Iterable[dict[str, Any]]) -> StateChain:
        """Read what `to_json` returned."""
        return cls(tuple(StateHandle.from_json(handle) for handle in value))


def should_compact(chain: StateChain, next_size: int, *, merges: bool = False) -> bool:
    """Whether the next snapshot should be a full one instead of a delta of `next_size` bytes.

    Deltas may grow to the size of the full snapshot (or 64 KB, if that is more), so a restore reads at most about twice the
    state, and the bytes written stay within a constant factor of the bytes changed. The number of deltas does not matter if
    they are merged (`merges`). A chain that uses another job's files starts again with a full snapshot as soon as possible.
    """
    if not chain.handles or any(handle.is_foreign for handle in chain):
        return True
    full, *deltas = chain.handles
    if len(deltas) >= MAX_DELTAS and not merges:
        return True
    delta_bytes = sum(handle.size for handle in deltas) + next_size
    return delta_bytes > max(full.size, MIN_COMPACTION_BYTES)


def state_file_name(checkpoint_id: int, vertex: str, subtask: int, attempt: str) -> str:
    """Return the name of a state file, relative to the job's directory.

    >>> state_file_name(7, "window", 0, "a1")
    'shared/7-window-0-a1.state'
    """
    return f"{SHARED}/{checkpoint_id}-{_clean(vertex)}-{subtask}-{_clean(attempt)}.state"


def checkpoint_id_of_file(name: str) -> int | None:
    """Return the id of the checkpoint that wrote a state file, or None if it is not a state file.

    >>> checkpoint_id_of_file("shared/7-window-0-a1.state")
    7
    """
    found = _STATE_FILE.fullmatch(name)
    return int(found.group(1)) if found else None


def write_state(
    storage: CheckpointFileSystem,
    payload: bytes,
    *,
    kind: SnapshotKind,
    key_groups: tuple[int, int],
    checkpoint_id: int,
    vertex: str,
    subtask: int,
    attempt: str,
    inline_threshold: int = DEFAULT_INLINE_THRESHOLD,
    signed: bool = False,
) -> StateHandle:
    """Make a snapshot durable and return its handle.

    `storage` is the job's directory. Up to `inline_threshold` bytes stay in the handle and reach storage with the
    manifest. A file
    name is unique to the attempt, so a task that runs twice never overwrites a file; each operator of a chain needs its own
    `vertex`.
    """
    size, checksum = len(payload), zlib.crc32(payload)
    if size <= inline_threshold:
        return StateHandle(kind, size, checksum, key_groups, data=bytes(payload))
    name = state_file_name(checkpoint_id, vertex, subtask, attempt)
    storage.write_new(name, payload)
    sha256 = digest(payload, wanted=signed)
    return StateHandle(kind, size, checksum, key_groups, name=name, sha256=sha256)


def read_state(storage: CheckpointFileSystem, handle: StateHandle) -> bytes:
    """Return the bytes of a snapshot after verifying them."""
    data = read_file(storage, handle.name) if handle.name is not None else handle.data
    assert data is not None
    check_state(storage, handle.name, data, handle.size, handle.crc32, handle.sha256)
    return data


class DamagedStateError(CheckpointError):
    """The bytes of a state file differ from those written, or the file is missing."""


def read_file(storage: CheckpointFileSystem, name: str) -> bytes:
    """Return the bytes of a state file; raises DamagedStateError if it does not exist."""
    try:
        return storage.read(name)
    except CheckpointError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise DamagedStateError(error.message, detail=error.detail, hint=error.hint) from error
        raise


def check_state(
    storage: CheckpointFileSystem,
    name: str | None,
    data: bytes,
    size: int,
    crc32: int,
    sha256: str | None = None,
) -> None:
    """Raise DamagedStateError unless the bytes are those that were written; `name` is None for inline state.

    Raises SignatureError if they are not those that were signed, although size and checksum match.
    """
    if name is None:
        what = "state inside a checkpoint's manifest"
    else:
        what = f"state file '{name if is_absolute(name) else storage.path(name)}'"
    if len(data) == size and zlib.crc32(data) == crc32:
        check_digest(what, digest(data, wanted=sha256 is not None), sha256)
        return
    raise DamagedStateError(
        f"{what} is damaged",
        detail=f"expected {size} bytes with checksum {crc32:08x}, "
        f"found {len(data)} bytes with checksum {zlib.crc32(data):08x}",
        hint="restore from another checkpoint or savepoint",
    )


def check_digest(what: str, found: str | None, sha256: str | None) -> None:
    """Raise SignatureError unless a file has the SHA-256 that was signed."""
    if found != sha256:
        raise SignatureError(
            f"the signature of {what} does not match",
            detail=f"its SHA-256 is {found}, the signed manifest has {sha256}",
            hint="do not use it: it was altered after signing",
        )


def _clean(text: str) -> str:
    """Turn any text into a file name part; different texts stay different."""
    if len(text) <= 80 and not _UNSAFE.search(text):
        return text
    return f"{_UNSAFE.sub('_', text)[:60]}_{zlib.crc32(text.encode()):08x}"
