"""Lines from a socket, counted by key behind one exchange, in Bytewax; state is kept for recovery every second."""

from __future__ import annotations

import shutil
import socket
from datetime import timedelta
from pathlib import Path

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main
from measuring import Ages, arguments, connect, parse

args = arguments()


class Socket(StatefulSourcePartition):
    def __init__(self) -> None:
        self._socket = connect(args.input)
        self._socket.setblocking(False)
        self._rest = b""

    def next_batch(self) -> list[str]:
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            return []
        if not data:
            raise StopIteration
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        return whole.decode().split("\n") if newline else []

    def snapshot(self) -> None:
        return None

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)


class Feed(FixedPartitionedSource):
    def list_parts(self) -> list[str]:
        return ["feed"]

    def build_part(self, step_id: str, for_part: str, resume_state: object) -> Socket:
        return Socket()


class NoteAges(StatelessSinkPartition):
    def __init__(self) -> None:
        self._ages = Ages(args.output)

    def write_batch(self, items: list[tuple[str, tuple[int, int, int]]]) -> None:
        for _, (_, due, phase) in items:
            self._ages.note(due, phase)

    def close(self) -> None:
        self._ages.flush()


class Measured(DynamicSink):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> NoteAges:
        return NoteAges()


def count(state: int | None, value: tuple[int, int]) -> tuple[int, tuple[int, int, int]]:
    number = (state or 0) + 1
    return number, (number, *value)


def keyed(line: str) -> tuple[str, tuple[int, int]]:
    key, due, phase = parse(line)
    return key, (due, phase)


flow = Dataflow("latency")
stream = op.map("parse", op.input("feed", flow, Feed()), keyed)
op.output("ages", op.stateful_map("count", stream, count), Measured())
recovery = Path(args.output, "recovery")
shutil.rmtree(recovery, ignore_errors=True)
recovery.mkdir(parents=True)
init_db_dir(recovery, 1)
cli_main(
    flow,
    workers_per_process=args.parallelism,
    epoch_interval=timedelta(seconds=1),
    recovery_config=RecoveryConfig(str(recovery)),
)
