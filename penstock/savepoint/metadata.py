"""The metadata of a savepoint: everything except the entries of keyed state, in one human-readable file.

Its first line has the SHA-256 of the rest. The rest is JSON.
"""

from __future__ import annotations

import base64
import hashlib
import json
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.checkpoint.handles import StateChain, StateHandle
from penstock.checkpoint.manifest import (
    DamagedManifestError,
    Manifest,
    OperatorSnapshot,
    SourceSnapshot,
    SubtaskSnapshot,
    VertexSnapshot,
    description_from_json,
    description_to_json,
    signature_in,
)
from penstock.checkpoint.pickled import Pickled
from penstock.checkpoint.signing import Signer, check_named_files
from penstock.errors import CheckpointError
from penstock.pickling.portable_pickles import dumps
from penstock.savepoint.open_json import UnopenedPickle, from_json, pickled_to_json, to_json

FORMAT: Final = "penstock-savepoint"
VERSION: Final = 1
METADATA: Final = "_metadata"
STATE: Final = "state"

_WIDTH: Final = 100
_START: Final = f'{{"format": "{FORMAT}", "sha256": "'.encode()


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """The files of one table of one subtask, and their number of entries."""

    rows: int
    files: tuple[StateHandle, ...]


TablesByName = Mapping[str, WrittenTable]


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint: the manifest, and the tables of each (operator id, subtask) by name.

    The chains of the manifest consist of the tables; file names are relative to the savepoint's directory. Its commit requests
    have no output, only what committers keep back.
    """

    manifest: Manifest
    tables: Mapping[tuple[str, int], TablesByName]
    drained: bool = False

    @classmethod
    def of(
        cls,
        manifest: Manifest,
        tables: Mapping[tuple[str, int], TablesByName],
        *,
        drained: bool = False,
        waiting: Mapping[str, Pickled] | None = None,
    ) -> Savepoint:
        """Return the savepoint of a checkpoint with its state in tables and its output committed, except `waiting`."""
        operators = {
            name: replace(
                operator,
                subtasks=tuple(
                    chain_of(
                        handle
                        for table in tables.get((name, subtask), {}).values()
                        for handle in table.files
                    )
                    for subtask in range(operator.parallelism)
                ),
            )
            for name, operator in manifest.operators.items()
        }
        plain = replace(manifest, operators=operators, commits=waiting or {}, final=False)
        return cls(plain, tables, drained)


def chain_of(handles: Iterable[StateHandle]) -> StateChain:
    """Return the chain of files that contain the state of one operator in one subtask."""
    return StateChain(
        tuple(
            replace(handle, kind="delta" if position else "full")
            for position, handle in enumerate(handles)
        )
    )


def encode(savepoint: Savepoint, signer: Signer | None = None) -> bytes:
    """Return the bytes of the metadata file."""
    body = f"{pretty(_to_json(savepoint))}\n".encode("utf-8", "surrogatepass")
    return _header(body, None if signer is None else signer.sign(FORMAT, body)) + body


def decode(data: bytes, path: str, signer: Signer | None = None) -> Savepoint:
    """Read what `encode` returned; `path` names the file in errors. Raises CheckpointError, including SignatureError."""
    header, newline, body = data.partition(b"\n")
    signature = signature_in(header)
    if header + newline != _header(body, signature):
        raise DamagedManifestError(
            f"the savepoint metadata '{path}' is damaged",
            detail=f"its {len(data)} bytes do not match the checksum in its first line",
            hint="use another copy of the savepoint, or another savepoint",
        )
    if signer is not None:
        signer.check(FORMAT, body, signature, path)
    value = json.loads(body)
    if value.get("version") != VERSION:
        raise CheckpointError(
            f"the savepoint '{path}' has format version {value.get('version')}, but this version of Penstock reads {VERSION}",
            hint="restore with the version of Penstock that wrote it",
        )
    try:
        savepoint = _from_json(value)
    except (KeyError, TypeError, ValueError, AttributeError, ImportError) as error:
        raise CheckpointError(
            f"could not read the savepoint metadata '{path}'",
            detail=f"{type(error).__name__}: {error}",
            hint="it was written by another version of Penstock: restore with that version",
        ) from error
    if signer is not None:
        check_named_files(savepoint.manifest.handles(), path)
    return savepoint


def is_metadata(data: bytes) -> bool:
    """Whether bytes begin like the metadata of a savepoint."""
    return data.startswith(_START)


def pretty(value: object, indent: str = "") -> str:
    """Return JSON text with everything that fits on a line on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + len(indent) <= _WIDTH or not isinstance(value, list | dict) or not value:
        return line
    inner = f"{indent}  "
    if isinstance(value, list):
        parts, (left, right) = [pretty(item, inner) for item in value], "[]"
    else:
        parts, (left, right) = (
            [
                f"{json.dumps(key, ensure_ascii=False)}: {pretty(item, inner)}"
                for key, item in value.items()
            ],
            "{}",
        )
    lines = f",\n{inner}".join(parts)
    return f"{left}\n{inner}{lines}\n{indent}{right}"


def _header(body: bytes, signature: str | None) -> bytes:
    signed = "" if signature is None else f', "hmac": "{signature}"'
    return _START + f'{hashlib.sha256(body).hexdigest()}"{signed}}}\n'.encode()


def _to_json(savepoint: Savepoint) -> dict[str, Any]:
    manifest = savepoint.manifest
    return {
        "version": VERSION,
        "job_id": manifest.job_id,
        "job_name": manifest.job_name,
        "checkpoint_id": manifest.checkpoint_id,
        "created_ms": manifest.created_ms,
        "drained": savepoint.drained,
        "operators": {
            name: {
                "uid": operator.uid,
                "name": operator.name,
                "vertex": operator.vertex,
                "parallelism": operator.parallelism,
                "max_parallelism": operator.max_parallelism,
                **description_to_json(operator),
                "tables": [
                    {
                        table: {
                            "rows": written.rows,
                            "files": [_file_to_json(handle) for handle in written.files],
                        }
                        for table, written in savepoint.tables.get((name, subtask), {}).items()
                    }
                    for subtask in range(operator.parallelism)
                ],
            }
            for name, operator in manifest.operators.items()
        },
        "sources": {
            name: {
                "enumerator": pickled_to_json(source.enumerator.data),
                "splits": [pickled_to_json(splits.data) for splits in source.splits],
            }
            for name, source in manifest.sources.items()
        },
        "vertices": {
            name: {
                "parallelism": vertex.parallelism,
                "subtasks": [
                    {
                        "watermark": subtask.watermark,
                        "finished": subtask.finished,
                        "next_wakeup": subtask.next_wakeup,
                        "local": None if subtask.local is None else _local_to_json(subtask.local),
                    }
                    for subtask in vertex.subtasks
                ],
            }
            for name, vertex in manifest.vertices.items()
        },
        **_waiting_to_json(manifest),
    }


def _waiting_to_json(manifest: Manifest) -> dict[str, Any]:
    if not manifest.commits:
        return {}
    return {
        "waiting": {name: pickled_to_json(each.data) for name, each in manifest.commits.items()}
    }


def _from_json(value: dict[str, Any]) -> Savepoint:
    tables = {
        (name, subtask): {
            table: WrittenTable(written["rows"], tuple(map(_file_from_json, written["files"])))
            for table, written in by_name.items()
        }
        for name, operator in value["operators"].items()
        for subtask, by_name in enumerate(operator["tables"])
    }
    manifest = Manifest(
        job_id=value["job_id"],
        job_name=value["job_name"],
        checkpoint_id=value["checkpoint_id"],
        created_ms=value["created_ms"],
        operators={
            name: OperatorSnapshot(
                uid=operator["uid"],
                name=operator["name"],
                vertex=operator["vertex"],
                max_parallelism=operator["max_parallelism"],
                subtasks=(StateChain(),) * operator["parallelism"],
                description=description_from_json(operator),
            )
            for name, operator in value["operators"].items()
        },
        sources={
            name: SourceSnapshot(
                enumerator=_pickled(source["enumerator"]),
                splits=tuple(map(_pickled, source["splits"])),
            )
            for name, source in value["sources"].items()
        },
        vertices={
            name: VertexSnapshot(
                tuple(
                    SubtaskSnapshot(
                        watermark=subtask["watermark"],
                        finished=subtask["finished"],
                        next_wakeup=subtask["next_wakeup"],
                        local=None if subtask["local"] is None else _local(subtask["local"]),
                    )
                    for subtask in vertex["subtasks"]
                )
            )
            for name, vertex in value["vertices"].items()
        },
    )
    waiting = {name: _pickled(each) for name, each in value.get("waiting", {}).items()}
    return Savepoint.of(manifest, tables, drained=value["drained"], waiting=waiting)


def _file_to_json(handle: StateHandle) -> dict[str, Any]:
    assert handle.format == "parquet", "savepoints have Parquet files only"
    return {
        "file": handle.name,
        "size": handle.size,
        "crc32": handle.crc32,
        "key_groups": list(handle.key_groups),
        **({} if handle.sha256 is None else {"sha256": handle.sha256}),
    }


def _file_from_json(value: dict[str, Any]) -> StateHandle:
    start, end = value["key_groups"]
    return StateHandle(
        "full",
        value["size"],
        value["crc32"],
        (start, end),
        name=value["file"],
        format="parquet",
        sha256=value.get("sha256"),
    )


def _pickled(data: object) -> Pickled:
    return Pickled(dumps(from_json(data, load=UnopenedPickle)))


# A subtask's state besides keyed state is a dictionary, in which `operators` has a dictionary per operator.


def _local_to_json(data: bytes) -> object:
    try:
        local: dict[str, Any] = pickle.loads(data)
    except Exception:  # noqa: BLE001 - unpickling runs the user's code
        return {"$pickle": base64.b64encode(data).decode()}
    opened = {name: to_json(value) for name, value in local.items() if name != "operators"}
    opened["operators"] = {
        operator: {name: to_json(value) for name, value in state.items()}
        for operator, state in local["operators"].items()
    }
    return opened


def _local(value: Any) -> bytes:
    if "$pickle" in value:
        return base64.b64decode(value["$pickle"], validate=True)
    opened = {
        name: from_json(part, load=UnopenedPickle)
        for name, part in value.items()
        if name != "operators"
    }
    opened["operators"] = {
        operator: {name: from_json(part, load=UnopenedPickle) for name, part in state.items()}
        for operator, state in value["operators"].items()
    }
    return dumps(opened)
