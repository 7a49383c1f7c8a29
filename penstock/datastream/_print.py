"""The sink behind DataStream.print().

Lines are made in the tasks, with Flink's prefixes, and written to the driver's standard output when their epoch is
committed: each line once, where the user looks for it.
"""

from __future__ import annotations

import sys
from typing import Any

from penstock.common.connector import CommitRequest, Committer, Sink, SinkWriter, WriterContext
from penstock.common.string_form import flink_string
from penstock.common.typeinfo import TypeInformation
from penstock.datastream._checks import describe
from penstock.errors import ArgumentTypeError


def line_prefix(identifier: str | None, subtask: int, parallelism: int) -> str:
    """Return what Flink writes before each value.

    >>> [line_prefix(name, 2, n) for name, n in ((None, 1), (None, 4), ("out", 1), ("out", 4))]
    ['', '3> ', 'out> ', 'out:3> ']
    """
    number = str(subtask + 1) if parallelism > 1 else ""
    prefix = ":".join(part for part in (identifier or "", number) if part)
    return f"{prefix}> " if prefix else ""


class PrintSink(Sink):
    """Prints elements to standard output."""

    def __init__(self, identifier: str | None, type_info: TypeInformation | None) -> None:
        if identifier is not None and not isinstance(identifier, str):
            raise ArgumentTypeError(f"sink_identifier must be a str, got {describe(identifier)}")
        self.identifier = identifier
        self.type_info = type_info

    def create_writer(self, context: WriterContext, restored: Any = None) -> SinkWriter:
        """Create the writer of one subtask for one epoch."""
        prefix = line_prefix(self.identifier, context.subtask, context.parallelism)
        return _PrintWriter(prefix, self.type_info)

    def create_committer(self) -> Committer:
        """Create what prints."""
        return _PrintCommitter()


class _PrintWriter(SinkWriter):
    def __init__(self, prefix: str, type_info: TypeInformation | None) -> None:
        self._prefix = prefix
        self._type_info = type_info
        self._lines: list[str] = []

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        prefix, kind = self._prefix, self._type_info
        self._lines.extend(prefix + flink_string(value, kind) for value in values)

    def prepare_commit(self) -> list[Any]:
        return ["\n".join(self._lines)] if self._lines else []


class _PrintCommitter(Committer):
    def __init__(self) -> None:
        self._printed_epoch = -1

    def commit(self, request: CommitRequest) -> Any:
        if request.epoch > self._printed_epoch and request.committables:
            sys.stdout.write("".join(f"{lines}\n" for lines in request.committables))
            sys.stdout.flush()
        self._printed_epoch = max(self._printed_epoch, request.epoch)
