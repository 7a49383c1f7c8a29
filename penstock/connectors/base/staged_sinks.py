"""Sinks whose output goes to the driver: printing and collecting.

Writers keep the output of a checkpoint, up to 64 KB inline in the committable and beyond that in a file in the job's staging
directory. The committer emits it on the driver after the checkpoint is durable, and deletes the file. A commit that is repeated
in the same driver process emits nothing twice; after a crash of the driver during a commit, the lines of that checkpoint may be
printed again, because standard output cannot take part in a commit.

In pipelined mode, lines are printed at once, like in Flink: after a failure those since the last checkpoint are repeated.
Collected records wait for their checkpoint, if the job takes any; else they are emitted at once, too.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Protocol

from penstock.common.user_types import StateValue
from penstock.connectors.base.sink import (
    CheckpointContext,
    CommitRequest,
    Committer,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.errors import ArgumentTypeError, CheckpointError, InvalidProgramError, RecordError
from penstock.errors.user_errors import shorten
from penstock.files.file_system import FileSystem, resolve
from penstock.files.paths import join_path
from penstock.logs.standard_output import write_out
from penstock.pickling.portable_pickles import NotPicklableError, dumps, is_picklable

INLINE_LIMIT = 64 << 10


@dataclass(frozen=True, slots=True)
class StagedOutput:
    """The output of one subtask for one checkpoint: bytes, or their file."""

    job_id: str
    checkpoint_id: int
    subtask: int
    data: bytes = b""
    path: str | None = None
    sha256: bytes | None = None  # of the file


class StagingBuffer:
    """Buffers the bytes of a checkpoint: in memory at first, in a staging file when it grows."""

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._checkpoint = CheckpointContext(0, "")
        self._parts: list[bytes] = []
        self._size = 0
        self._files: FileSystem | None = None
        self._stream: IO[bytes] | None = None
        self._path: str | None = None
        self._sha256 = hashlib.sha256()  # of the file

    def begin(self, checkpoint: CheckpointContext) -> None:
        """Start the output of the next checkpoint."""
        self._checkpoint = checkpoint

    def write(self, data: bytes) -> None:
        """Add bytes."""
        self._parts.append(data)
        self._size += len(data)
        if self._size >= INLINE_LIMIT:
            self._spill()

    def finish(self) -> list[StagedOutput]:
        """Return the committable of the checkpoint; none if nothing was written."""
        job_id, checkpoint_id, subtask = (
            self._context.job_id,
            self._checkpoint.checkpoint_id,
            self._context.subtask,
        )
        if self._stream is None:
            data = b"".join(self._parts)
            self._parts, self._size = [], 0
            return [StagedOutput(job_id, checkpoint_id, subtask, data)] if data else []
        self._spill()
        assert self._files is not None
        self._files.finish(self._stream)
        self._stream = None
        return [
            StagedOutput(
                job_id, checkpoint_id, subtask, path=self._path, sha256=self._sha256.digest()
            )
        ]

    def close(self) -> None:
        """Delete an unfinished file."""
        if self._stream is not None and self._files is not None and self._path is not None:
            self._stream.close()
            self._files.delete(resolve(self._path)[1])
            self._stream = None

    def _spill(self) -> None:
        if self._stream is None:
            context = self._context
            attempt = self._checkpoint.attempt.replace("/", "-")
            name = f"output-{context.operator_id}-{self._checkpoint.checkpoint_id}-{context.subtask}-{attempt}"
            self._path = join_path(context.staging, name)
            self._files, path = resolve(self._path)
            self._stream = self._files.open_output(path)
            self._sha256 = hashlib.sha256()
        data = b"".join(self._parts)
        self._sha256.update(data)
        self._stream.write(data)
        self._parts = []
        self._size = 0


class StagedCommitter(Committer):
    """Emits staged output, subtask by subtask, and deletes staging files afterwards."""

    def __init__(self, delivered: dict[str, int]) -> None:
        # job -> last emitted checkpoint; shared by all committers of a sink in this process
        self._delivered = delivered

    def commit(self, request: CommitRequest) -> Any:
        """Emit the checkpoint's output, unless that was done before."""
        outputs = sorted(request.committables, key=lambda output: output.subtask)
        if not outputs:
            return
        job = outputs[0].job_id
        if self._delivered.get(job, -1) < request.checkpoint_id:
            present = [output for output in outputs if is_staged(output)]
            self.put_out(request.checkpoint_id, present)
            self._delivered[job] = request.checkpoint_id
        for output in outputs:
            delete_staged(output)

    def put_out(self, checkpoint_id: int, outputs: list[StagedOutput]) -> None:
        """Emit output."""
        raise NotImplementedError


class PrintSink(Sink):
    """Prints records on the driver, in Flink's format.

    A line starts with `3> ` for the third subtask if there are several, with `name:3> ` if the sink has an identifier, and with
    `name> ` if there is only one subtask.
    """

    def __init__(
        self, identifier: str | None = None, to_stderr: bool = False, type_info: Any = None
    ) -> None:
        if identifier is not None and not isinstance(identifier, str):
            raise ArgumentTypeError(
                "the identifier of a print sink is not a str", detail=f"got {identifier!r}"
            )
        self.identifier = identifier
        self.to_stderr = to_stderr
        self.type_info = type_info
        self._delivered: dict[str, int] = {}

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Create the writer of one subtask."""
        prefix = line_prefix(self.identifier, context.subtask, context.parallelism)
        return _PrintWriter(context, prefix, self.text_function())

    def text_function(self) -> Callable[[Any], str]:
        """Return the function from record to text."""
        from penstock.records.string_form import flink_string

        kind = self.type_info
        return flink_string if kind is None else lambda value: flink_string(value, kind)

    def create_committer(self) -> Committer:
        """Create the committer, which prints."""
        return _PrintCommitter(self._delivered, to_stderr=self.to_stderr)

    def put_streamed(self, data: bytes) -> None:
        """Print output that a writer sent to the driver."""
        out = sys.stderr if self.to_stderr else sys.stdout
        write_out(out, [data.decode("utf-8", "surrogatepass")])


def line_prefix(identifier: str | None, subtask: int, parallelism: int) -> str:
    """Return the prefix of each line.

    >>> line_prefix("out", 2, 4), line_prefix(None, 2, 4), line_prefix("out", 0, 1), line_prefix(None, 0, 1)
    ('out:3> ', '3> ', 'out> ', '')
    """
    number = str(subtask + 1) if parallelism > 1 else ""
    text = ":".join(part for part in (identifier, number) if part)
    return f"{text}> " if text else ""


class StagedSinkWriter(SinkWriter):
    """A writer whose output is staged, or sent to the driver at once."""

    waits_for_checkpoints = True

    def __init__(self, context: WriterContext) -> None:
        self._buffer = StagingBuffer(context)
        self.put: Callable[[bytes], None] = self._buffer.write

    def stream_to_driver(self, tell: Callable[[bytes], None], *, checkpointed: bool) -> None:
        """Send output to the driver from now on, unless it must wait for the job's checkpoints."""
        if not (self.waits_for_checkpoints and checkpointed):
            self.put = tell

    def begin(self, checkpoint: CheckpointContext) -> None:
        """Stage what follows for this checkpoint."""
        self._buffer.begin(checkpoint)

    def prepare_commit(self) -> list[Any]:
        """Return what was staged."""
        return self._buffer.finish()

    def close(self) -> None:
        """Drop what is staged and not returned."""
        self._buffer.close()


class _PrintWriter(StagedSinkWriter):
    waits_for_checkpoints = False

    def __init__(self, context: WriterContext, prefix: str, string: Callable[[Any], str]) -> None:
        super().__init__(context)
        self._string = string
        self._prefix = prefix

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        string, prefix = self._string, self._prefix
        text = "".join([f"{prefix}{string(value)}\n" for value in values])
        self.put(text.encode("utf-8", "surrogatepass"))


class _PrintCommitter(StagedCommitter):
    def __init__(self, delivered: dict[str, int], *, to_stderr: bool) -> None:
        super().__init__(delivered)
        self._to_stderr = to_stderr

    def put_out(self, checkpoint_id: int, outputs: list[StagedOutput]) -> None:
        out = sys.stderr if self._to_stderr else sys.stdout
        write_out(out, (block for output in outputs for block in _blocks(output)))


def _blocks(output: StagedOutput) -> Iterator[str]:
    """Yield staged text, in blocks."""
    with _open(output) as stream:
        text = io.TextIOWrapper(stream, "utf-8", "surrogatepass", newline="\n")
        while block := text.read(1 << 20):
            yield block


class CollectConsumer(Protocol):
    """Receives collected records, on the driver."""

    def put(self, checkpoint_id: int, elements: list[Any]) -> None:
        """Add the records of a checkpoint. May be called again with the same checkpoint after a failure."""


class CollectSink(Sink):
    """Passes records to `consumer`, an object in the driver process with a method `put(epoch, records)`.

    The consumer stays on the driver: it is not pickled with the sink.
    """

    def __init__(self, consumer: CollectConsumer | None = None) -> None:
        self.consumer = consumer
        self._delivered: dict[str, int] = {}
        self._streamed_puts = 0

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Create the writer of one subtask."""
        return _CollectWriter(context)

    def create_committer(self) -> Committer:
        """Create the committer, which feeds the consumer."""
        if self.consumer is None:
            raise InvalidProgramError(
                "a collecting sink has no consumer", hint="set sink.consumer before the job starts"
            )
        return _CollectCommitter(self._delivered, self.consumer)

    def put_streamed(self, data: bytes) -> None:
        """Pass on records that a writer sent to the driver."""
        assert self.consumer is not None
        self._streamed_puts += 1
        self.consumer.put(self._streamed_puts, pickle.loads(data))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "consumer": None}


class _CollectWriter(StagedSinkWriter):
    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        try:
            data = dumps(values)
        except NotPicklableError as error:
            culprit = next(each for each in values if not is_picklable(each))
            raise RecordError(
                "cannot send a record to the collecting program",
                detail=f"record {shorten(culprit)} cannot be pickled: {error.message}",
                hint="emit plain data: a list instead of a generator or iterator; create connections and locks where they are used",
            ) from error
        self.put(data)


class _CollectCommitter(StagedCommitter):
    def __init__(self, delivered: dict[str, int], consumer: CollectConsumer) -> None:
        super().__init__(delivered)
        self._consumer = consumer

    def put_out(self, checkpoint_id: int, outputs: list[StagedOutput]) -> None:
        elements = [value for output in outputs for values in unpickled(output) for value in values]
        self._consumer.put(checkpoint_id, elements)


def unpickled(output: StagedOutput) -> Iterator[list[Any]]:
    """Yield the staged, pickled lists, in order; raise if they do not match their checksum."""
    with _open(output) as stream:
        data = stream.read()
    # Others may be able to write the file, and unpickling runs code.
    if output.sha256 is not None and hashlib.sha256(data).digest() != output.sha256:
        raise CheckpointError(
            "collected output does not match its checksum",
            detail=f"file: {output.path}",
            hint="the file is damaged or was changed: start the job from another checkpoint",
        )
    stream = io.BytesIO(data)
    while True:
        try:
            yield pickle.load(stream)
        except EOFError:
            return


def _open(output: StagedOutput) -> Any:
    if output.path is None:
        return io.BytesIO(output.data)
    files, path = resolve(output.path)
    return files.open_input(path)


def is_staged(output: StagedOutput) -> bool:
    """Whether output can still be read: a commit before a crash may have deleted its file."""
    if output.path is None:
        return True
    files, path = resolve(output.path)
    return files.has_file(path)


def delete_staged(output: StagedOutput) -> None:
    """Delete the file of staged output, if there is one."""
    if output.path is not None:
        files, path = resolve(output.path)
        files.delete(path)
