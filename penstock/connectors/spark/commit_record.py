"""The record of the last checkpoint whose rows were handed over, beside its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.connectors.spark.staged_files import StagedFile
from penstock.files.file_system import resolve
from penstock.files.paths import join_path

_NAME: Final = "last-call.json"


@dataclass(frozen=True, slots=True)
class LastCall:
    """The last checkpoint whose rows were handed over, and its files: their names tell attempts at a checkpoint apart."""

    checkpoint_id: int
    files: str  # a digest of their names

    def is_of(self, checkpoint_id: int, files: Sequence[StagedFile]) -> bool:
        """Whether it was with exactly these files."""
        return self == LastCall(checkpoint_id, _digest(files))


class CommitRecord:
    """The record in a directory of staged files."""

    def __init__(self, directory: str) -> None:
        self._files, self._path = resolve(join_path(directory, _NAME))

    def read(self) -> LastCall | None:
        """Return the last call; None if there was none, or the directory is gone."""
        if not self._files.has_file(self._path):
            return None
        return LastCall(**json.loads(self._files.read(self._path)))

    def write(self, checkpoint_id: int, files: Sequence[StagedFile]) -> None:
        """Replace the record."""
        data = {"checkpoint_id": checkpoint_id, "files": _digest(files)}
        self._files.write_atomic(self._path, json.dumps(data).encode())


def _digest(files: Sequence[StagedFile]) -> str:
    names = "\n".join(sorted(file.name for file in files))
    return hashlib.sha256(names.encode()).hexdigest()
