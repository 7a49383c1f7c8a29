"""The micro-batches of a streaming DataFrame that Spark has written for a job.

```
<home>/query/                       Spark's own: offsets and state of the query
<home>/batches/00000012/*.arrow     the rows of micro-batch 12, a file for each partition
<home>/batches/00000012/_files      its files; the micro-batch counts once this exists
<home>/batches/_deleted             the number of the last micro-batch that was deleted
```
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from penstock.files.file_system import resolve
from penstock.files.paths import join_path
from penstock.runtime.columnar.arrow_files import ArrowFile

_BATCHES: Final = "batches"
_FILES: Final = "_files"
_DELETED: Final = "_deleted"


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A micro-batch with its number and the files of its partitions that have rows."""

    number: int
    files: tuple[ArrowFile, ...]

    @property
    def size(self) -> int:
        """The size of the files in bytes."""
        return sum(file.size for file in self.files)


class BatchStore:
    """The micro-batches below a directory (path or URI)."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.query_location = join_path(home, "query")
        self._system, self._path = resolve(join_path(home, _BATCHES))

    def directory(self, number: int) -> str:
        """Return the directory of a micro-batch."""
        return join_path(self.home, f"{_BATCHES}/{number:08}")

    def commit(self, number: int, files: Sequence[ArrowFile]) -> MicroBatch:
        """Record that all rows of a micro-batch are written."""
        content = json.dumps([asdict(file) for file in files]).encode()
        self._system.write_atomic(f"{self._path}/{number:08}/{_FILES}", content)
        return MicroBatch(number, tuple(files))

    def read_after(self, number: int) -> list[MicroBatch]:
        """Return the micro-batches that are complete and have a higher number, in order."""
        found = []
        for file in self._system.walk(self._path):
            directory, _, name = file.path.rpartition("/")
            each = directory.rpartition("/")[2]
            if name == _FILES and each.isdecimal() and int(each) > number:
                found.append(self._read(int(each), file.path))
        return sorted(found, key=lambda batch: batch.number)

    def _read(self, number: int, path: str) -> MicroBatch:
        entries = json.loads(self._system.read(path))
        files = [ArrowFile(each["path"], tuple(each["ends"]), each["size"]) for each in entries]
        return MicroBatch(number, tuple(files))

    def last_deleted(self) -> int:
        """Return the number of the last micro-batch that was deleted; -1 if none was. All before it are deleted, too."""
        path = f"{self._path}/{_DELETED}"
        return int(self._system.read(path)) if self._system.has_file(path) else -1

    def delete(self, number: int) -> None:
        """Delete a micro-batch. They are deleted in order."""
        self._system.write_atomic(f"{self._path}/{_DELETED}", str(number).encode())
        self._system.delete_tree(f"{self._path}/{number:08}")
