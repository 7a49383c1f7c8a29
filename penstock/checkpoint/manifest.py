"""The manifest: the contents of a completed checkpoint, in one file."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.checkpoint.handles import StateChain, StateHandle
from penstock.checkpoint.pickled import Pickled
from penstock.checkpoint.signing import Signer, check_named_files
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.connectors.base.sink import CommitRequest
from penstock.connectors.base.source import SplitProgress
from penstock.errors import CheckpointError
from penstock.files.paths import is_absolute
from penstock.graph.state_description import StateDescription

VERSION = 1
_SIGNED = "manifest"
_SIGNATURE = re.compile(rb'"hmac": ?"([0-9a-f]{64})"')
MIN_WATERMARK = -(2**63)


@dataclass(frozen=True, slots=True)
class SubtaskSnapshot:
    """The snapshot of one subtask of a vertex. `next_wakeup` is when (epoch ms) it needs to run even without data.

    `attempt` is the task attempt that took the snapshot: a worker that still holds it in memory continues from there.
    `local` is the
    subtask's state besides keyed state, as pickled by the task. `in_flight` are the in-flight records of an unaligned
    checkpoint:
    after a restore they are processed before any new input of the channels.
    """

    watermark: int = MIN_WATERMARK
    finished: bool = False
    next_wakeup: int | None = None
    attempt: str | None = None
    local: bytes | None = None
    in_flight: StateHandle | None = None

    def relocated(self, directory: CheckpointFileSystem) -> SubtaskSnapshot:
        """Return the snapshot with absolute file names: `directory` is that of the job that wrote it."""
        if self.in_flight is None:
            return self
        return replace(self, in_flight=self.in_flight.relocated(directory))


@dataclass(frozen=True, slots=True)
class VertexSnapshot:
    """The snapshots of a vertex, by subtask."""

    subtasks: tuple[SubtaskSnapshot, ...]

    @property
    def parallelism(self) -> int:
        """The number of subtasks."""
        return len(self.subtasks)

    @property
    def watermark(self) -> int:
        """The lowest watermark of all subtasks."""
        return min(subtask.watermark for subtask in self.subtasks)

    @property
    def finished(self) -> bool:
        """Whether all subtasks have finished."""
        return all(subtask.finished for subtask in self.subtasks)

    @property
    def next_wakeup(self) -> int | None:
        """The earliest wake-up that a running subtask requested."""
        running = (subtask for subtask in self.subtasks if not subtask.finished)
        return min((s.next_wakeup for s in running if s.next_wakeup is not None), default=None)


@dataclass(frozen=True, slots=True)
class OperatorSnapshot:
    """The state of one operator; `subtasks` has one chain per subtask.

    `description` describes the state's declared types and settings, where a restore compares them.
    """

    uid: str | None
    name: str
    vertex: str
    max_parallelism: int
    subtasks: tuple[StateChain, ...]
    description: StateDescription | None = None

    @property
    def parallelism(self) -> int:
        """The number of subtasks."""
        return len(self.subtasks)

    @property
    def is_stateful(self) -> bool:
        """Whether any subtask has state."""
        return any(self.subtasks)


@dataclass(frozen=True, slots=True)
class SourceSnapshot:
    """The progress of a source. `splits` has, per owner subtask, a pickled tuple of SplitProgress.

    `complete` says that all splits had been discovered: finished ones are not in the checkpoint.
    """

    enumerator: Pickled
    splits: tuple[Pickled, ...]
    complete: bool = False

    @property
    def parallelism(self) -> int:
        """The number of subtasks that own splits."""
        return len(self.splits)

    def load_enumerator(self) -> object:
        """Return what `SplitEnumerator.snapshot` returned."""
        return self.enumerator.load("the state of a split enumerator")

    def load_splits(self, subtask: int) -> tuple[SplitProgress, ...]:
        """Return the splits of one subtask."""
        progress: tuple[SplitProgress, ...] = self.splits[subtask].load("the progress of splits")
        return progress


@dataclass(frozen=True, slots=True)
class Manifest:
    """A completed checkpoint. Mappings are by vertex id (`vertices`) or operator id (the others).

    `final` says that the job is finished after the commits of this checkpoint. `commits` holds a pickled CommitRequest
    per sink.
    """

    job_id: str
    job_name: str
    checkpoint_id: int
    created_ms: int
    vertices: Mapping[str, VertexSnapshot] = field(default_factory=dict)
    operators: Mapping[str, OperatorSnapshot] = field(default_factory=dict)
    sources: Mapping[str, SourceSnapshot] = field(default_factory=dict)
    commits: Mapping[str, Pickled] = field(default_factory=dict)
    final: bool = False

    @property
    def parallelism(self) -> dict[str, int]:
        """The parallelism of every vertex."""
        return {name: vertex.parallelism for name, vertex in self.vertices.items()}

    @property
    def watermarks(self) -> dict[str, int]:
        """The lowest watermark of every vertex."""
        return {name: vertex.watermark for name, vertex in self.vertices.items()}

    @property
    def next_wakeup(self) -> int | None:
        """When (epoch ms) the job needs an epoch even if no data arrives, or None."""
        wakeups = (vertex.next_wakeup for vertex in self.vertices.values())
        return min((wakeup for wakeup in wakeups if wakeup is not None), default=None)

    @property
    def state_size(self) -> int:
        """The total size in bytes of the state and in-flight data that this checkpoint refers to."""
        return sum(handle.total_size for handle in self.handles())

    @property
    def has_in_flight_data(self) -> bool:
        """Whether it is an unaligned checkpoint with in-flight records."""
        return next(self._in_flight(), None) is not None

    @property
    def in_flight_size(self) -> int:
        """The size of the in-flight records in bytes."""
        return sum(handle.total_size for handle in self._in_flight())

    def load_commit(self, operator: str) -> CommitRequest:
        """Return the commit request of a sink."""
        request: CommitRequest = self.commits[operator].load(f"the commit request of '{operator}'")
        return request

    def settled_commits(self, waiting: Mapping[str, Any]) -> dict[str, Pickled]:
        """Return the commit requests left after this checkpoint's commits: `waiting` is what the committers keep back."""
        return {
            name: Pickled.of(
                CommitRequest(self.checkpoint_id, [], pending=kept),
                f"the pending output of sink '{name}'",
            )
            for name, kept in waiting.items()
            if kept is not None
        }

    def files(self) -> frozenset[str]:
        """Return the names of all state files that this checkpoint needs."""
        return frozenset(name for handle in self.handles() for name in handle.names())

    def handles(self) -> Iterator[StateHandle]:
        """Iterate over all handles: of state and of in-flight data."""
        for op in self.operators.values():
            for chain in op.subtasks:
                yield from chain
        yield from self._in_flight()

    def _in_flight(self) -> Iterator[StateHandle]:
        for vertex in self.vertices.values():
            for subtask in vertex.subtasks:
                if subtask.in_flight is not None:
                    yield subtask.in_flight

    @property
    def needs_other_jobs(self) -> bool:
        """Whether it refers to files outside of its job's directory."""
        return any(is_absolute(name) for name in self.files())

    def relocated(self, directory: CheckpointFileSystem) -> Manifest:
        """Return the manifest with absolute file names: `directory` is that of the job that wrote it."""
        operators = {
            name: replace(op, subtasks=tuple(chain.relocated(directory) for chain in op.subtasks))
            for name, op in self.operators.items()
        }
        vertices = {
            name: VertexSnapshot(tuple(each.relocated(directory) for each in vertex.subtasks))
            for name, vertex in self.vertices.items()
        }
        return replace(self, operators=operators, vertices=vertices)

    def unmatched(self, operators: Iterable[str]) -> dict[str, str]:
        """Return the state that a job with these operator ids would lose: operator id to a word for its kind."""
        known = set(operators)
        lost = {name: "splits" for name in self.sources if name not in known}
        lost |= {
            n: "state" for n, op in self.operators.items() if n not in known and op.is_stateful
        }
        return lost


def encode(manifest: Manifest, signer: Signer | None = None) -> bytes:
    """Return the bytes of the manifest file: a line with the checksum and the signature, and a line of JSON."""
    body = json.dumps(_to_json(manifest), separators=(",", ":"), sort_keys=True).encode()
    signature = None if signer is None else signer.sign(_SIGNED, body)
    return _header(body, signature) + body + b"\n"


def decode(data: bytes, path: str, signer: Signer | None = None) -> Manifest:
    """Read what `encode` returned; `path` names the file in errors.

    Raises DamagedManifestError if the bytes differ from those written, SignatureError if they are not signed by `signer`,
    another CheckpointError if this version cannot read them.
    """
    header, newline, rest = data.partition(b"\n")
    body = rest[:-1]
    signature = signature_in(header)
    if not rest.endswith(b"\n") or header + newline != _header(body, signature):
        raise DamagedManifestError(
            f"the checkpoint manifest '{path}' is damaged",
            detail=f"its {len(data)} bytes do not match the checksum in its first line",
            hint="restore from another checkpoint or savepoint",
        )
    if signer is not None:
        signer.check(_SIGNED, body, signature, path)
    value = json.loads(body)
    if value.get("version") != VERSION:
        raise CheckpointError(
            f"the checkpoint manifest '{path}' has format version {value.get('version')}, "
            f"but this version of Penstock reads {VERSION}",
            hint="restore with the version of Penstock that wrote it, and take a savepoint there",
        )
    try:
        manifest = _from_json(value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(
            f"could not read the checkpoint manifest '{path}'",
            detail=f"{type(error).__name__}: {error}",
            hint="it was written by another version of Penstock: restore with that version",
        ) from error
    if signer is not None:
        check_named_files(manifest.handles(), path)
    return manifest


def signature_in(header: bytes) -> str | None:
    """Return the signature in the first line of a manifest or of a savepoint's metadata."""
    found = _SIGNATURE.search(header)
    return None if found is None else found.group(1).decode()


class DamagedManifestError(CheckpointError):
    """The bytes of a manifest differ from those written."""


def _header(body: bytes, signature: str | None = None) -> bytes:
    fields = {"sha256": hashlib.sha256(body).hexdigest()}
    if signature is not None:
        fields["hmac"] = signature
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _to_text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _to_bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


def _in_flight_to_json(vertex: VertexSnapshot) -> dict[str, Any]:
    handles = [subtask.in_flight for subtask in vertex.subtasks]
    if not any(handles):
        return {}
    return {"in_flight": [None if each is None else each.to_json() for each in handles]}


def _in_flight_from_json(vertex: dict[str, Any]) -> list[StateHandle | None]:
    nothing = [None] * len(vertex["finished"])
    return [
        None if each is None else StateHandle.from_json(each)
        for each in vertex.get("in_flight", nothing)
    ]


def description_to_json(operator: OperatorSnapshot) -> dict[str, Any]:
    """Return the JSON description of an operator's state, if any."""
    described = operator.description
    return {} if described is None else {"description": described.to_json()}


def description_from_json(operator: dict[str, Any]) -> StateDescription | None:
    """Read what `description_to_json` has written; older snapshots have no description."""
    described = operator.get("description")
    return None if described is None else StateDescription.from_json(described)


def _to_json(manifest: Manifest) -> dict[str, Any]:
    return {
        "version": VERSION,
        "job_id": manifest.job_id,
        "job_name": manifest.job_name,
        "checkpoint_id": manifest.checkpoint_id,
        "created_ms": manifest.created_ms,
        "final": manifest.final,
        "vertices": {
            name: {
                "parallelism": vertex.parallelism,
                "watermark": vertex.watermark,
                "watermarks": [subtask.watermark for subtask in vertex.subtasks],
                "finished": [subtask.finished for subtask in vertex.subtasks],
                "next_wakeups": [subtask.next_wakeup for subtask in vertex.subtasks],
                "attempts": [subtask.attempt for subtask in vertex.subtasks],
                "local": [_to_text(subtask.local) for subtask in vertex.subtasks],
                **_in_flight_to_json(vertex),
            }
            for name, vertex in manifest.vertices.items()
        },
        "operators": {
            name: {
                "uid": op.uid,
                "name": op.name,
                "vertex": op.vertex,
                "parallelism": op.parallelism,
                "max_parallelism": op.max_parallelism,
                "subtasks": [chain.to_json() for chain in op.subtasks],
                **description_to_json(op),
            }
            for name, op in manifest.operators.items()
        },
        "sources": {
            name: {
                "enumerator": source.enumerator.to_json(),
                "splits": [splits.to_json() for splits in source.splits],
                "complete": source.complete,
            }
            for name, source in manifest.sources.items()
        },
        "commits": {name: commit.to_json() for name, commit in manifest.commits.items()},
        "next_wakeup": manifest.next_wakeup,
    }


def _from_json(value: dict[str, Any]) -> Manifest:
    vertices = {
        name: VertexSnapshot(
            tuple(
                SubtaskSnapshot(*subtask)
                for subtask in zip(
                    vertex["watermarks"],
                    vertex["finished"],
                    vertex["next_wakeups"],
                    vertex["attempts"],
                    map(_to_bytes, vertex["local"]),
                    _in_flight_from_json(vertex),
                    strict=True,
                )
            )
        )
        for name, vertex in value["vertices"].items()
    }
    operators = {
        name: OperatorSnapshot(
            uid=op["uid"],
            name=op["name"],
            vertex=op["vertex"],
            max_parallelism=op["max_parallelism"],
            subtasks=tuple(StateChain.from_json(chain) for chain in op["subtasks"]),
            description=description_from_json(op),
        )
        for name, op in value["operators"].items()
    }
    sources = {
        name: SourceSnapshot(
            enumerator=Pickled.from_json(source["enumerator"]),
            splits=tuple(Pickled.from_json(splits) for splits in source["splits"]),
            complete=source.get("complete", False),
        )
        for name, source in value["sources"].items()
    }
    return Manifest(
        job_id=value["job_id"],
        job_name=value["job_name"],
        checkpoint_id=value["checkpoint_id"],
        created_ms=value["created_ms"],
        vertices=vertices,
        operators=operators,
        sources=sources,
        commits={name: Pickled.from_json(commit) for name, commit in value["commits"].items()},
        final=value["final"],
    )
