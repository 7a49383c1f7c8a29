"""The jobs that connectors are put through: the kit's own source and sink, and how to run, stop and rescale a job."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import TimeoutError as NotYetError
from pathlib import Path
from typing import Any

from penstock.client.mini_cluster import MiniCluster
from penstock.common import Configuration, WatermarkStrategy
from penstock.common.job_client import JobClient
from penstock.common.user_types import Position, StateValue
from penstock.connectors.base.sink import (
    CommitRequest,
    Committer,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.connectors.base.source import (
    Boundedness,
    NonBlockingReadLimits,
    ReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.conformance.rules import broken

INTERVAL_MS = 20
_POLL_S = 0.005


def environment(
    directory: Path, mode: str, parallelism: int, options: dict[str, str] | None = None
) -> StreamExecutionEnvironment:
    """Return an environment whose jobs have many checkpoints, below the directory, and are restarted after every failure."""
    settings = {
        "execution.checkpointing.interval": f"{INTERVAL_MS} ms",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "100",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "penstock.execution.mode": mode,
        **(options or {}),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(parallelism)
    return env


@contextlib.contextmanager
def running(env: StreamExecutionEnvironment) -> Iterator[JobClient]:
    """Run a program meanwhile; at the end it is cancelled if it has not ended."""
    with MiniCluster():
        client = env.execute_async("conformance")
        try:
            yield client
        finally:
            client.cancel()
            with contextlib.suppress(Exception):
                client.get_job_execution_result().result(10)


def wait_for_end(client: JobClient, seconds: float, step: str) -> None:
    """Wait until the job has ended by itself."""
    try:
        client.get_job_execution_result().result(seconds)
    except NotYetError as error:
        raise broken(step, f"the job has not ended after {seconds:g} s") from error


def wait_until(
    condition: Callable[[], bool], client: JobClient | None, seconds: float, step: str, what: str
) -> None:
    """Wait for a condition; raises the error of a job that fails meanwhile."""
    end = time.monotonic() + seconds
    while not condition():
        if client is not None and client.get_job_execution_result().done():
            client.get_job_execution_result().result(0)
            if condition():
                return
            raise broken(step, f"the job has ended before {what}")
        if time.monotonic() > end:
            raise broken(step, f"not within {seconds:g} s: {what}")
        time.sleep(_POLL_S)


class ScriptedSource(Source):
    """The kit's own source: given records in a few splits, a batch at a time, with pauses in which checkpoints come.

    While the file `hold` exists, each split gives no more records than the number in it, so that the job does not end. With `paced`, no
    checkpoint has more than one batch of a split, however long it takes.
    """

    def __init__(
        self,
        records: Sequence[Any],
        hold: Path | None = None,
        pause_s: float = 0.01,
        *,
        paced: bool = False,
    ) -> None:
        self.splits = [list(records[start::2]) for start in range(2)]
        self.hold = None if hold is None else str(hold)
        self.pause_s = pause_s
        self.paced = paced

    def get_boundedness(self) -> Boundedness:
        """It ends."""
        return Boundedness.BOUNDED

    def create_enumerator(self, parallelism: int, restored: StateValue = None) -> SplitEnumerator:
        """Plan the splits once."""
        return _StepsEnumerator(len(self.splits), found=bool(restored))

    def create_reader(self) -> SourceReader:
        """Create a reader."""
        return _StepsReader(self)


class _StepsEnumerator(SplitEnumerator):
    def __init__(self, count: int, *, found: bool) -> None:
        self._count = count
        self._found = found

    def discover(self) -> list[SourceSplit]:
        found, self._found = self._found, True
        return [] if found else [SourceSplit(f"{n}", n, 0) for n in range(self._count)]

    def no_more_splits(self) -> bool:
        return self._found

    def snapshot(self) -> bool:
        return self._found


class _StepsReader(SourceReader):
    BATCH = 4

    def __init__(self, source: ScriptedSource) -> None:
        self._source = source
        self._durable: dict[str, int] = {}  # positions that checkpoints hold, by split

    def read(
        self, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        records = self._source.splits[split.payload]
        begun = position
        self._durable.setdefault(split.split_id, position)
        while position < len(records):
            time.sleep(self._source.pause_s)
            end = min(position + self.BATCH, len(records), max(self._allowed(), position))
            if self._source.paced:
                # In epoch mode a checkpoint has everything that was read; in pipelined mode checkpoints are notified.
                pipelined = isinstance(limits, NonBlockingReadLimits)
                last = self._durable[split.split_id] if pipelined else begun
                end = end if position == last else position
            yield SourceBatch(records[position:end], end)
            position = end

    def _allowed(self) -> int:
        """Return how many records of each split may be read by now."""
        try:
            return (
                sys.maxsize
                if self._source.hold is None
                else int(Path(self._source.hold).read_text())
            )
        except FileNotFoundError:
            return sys.maxsize

    def on_checkpoint(self, split: SourceSplit, position: Position) -> None:
        self._durable[split.split_id] = position


class FolderSink(Sink):
    """The kit's own sink: a file of pickled records for each checkpoint and subtask. Other processes can write to it and read it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Open a writer."""
        return _FolderWriter()

    def create_committer(self) -> Committer:
        """Create the committer."""
        return _FolderCommitter(self.directory)

    def records(self) -> list[Any]:
        """Return all that is committed."""
        files = sorted(self.directory.glob("checkpoint-*"))
        return [record for file in files for record in pickle.loads(file.read_bytes())]


class _FolderWriter(SinkWriter):
    def begin(self, checkpoint: Any) -> None:
        self._name, self._records = checkpoint.attempt, []  # type: str, list[Any]

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        self._records += values

    def prepare_commit(self) -> list[Any]:
        return [(self._name, os.urandom(4).hex(), self._records)]


class _FolderCommitter(Committer):
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def commit(self, request: CommitRequest) -> None:
        for name, unique, records in request.committables:
            file = self._directory / f"checkpoint-{name}-{unique}".replace("/", "_")
            hidden = file.with_name(f".{file.name}-{os.urandom(4).hex()}")
            hidden.write_bytes(pickle.dumps(records))
            hidden.replace(file)


def reads(
    env: StreamExecutionEnvironment, source: Source, strategy: WatermarkStrategy | None = None
) -> Any:
    """Return the stream of a source, under the name that savepoints know it by."""
    strategy = strategy or WatermarkStrategy.no_watermarks()
    return env.from_source(source, strategy, "conformance source").uid("source")
