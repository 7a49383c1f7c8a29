"""Lines from a socket, counted by key behind one exchange, in Pathway, which takes what has arrived every 10 ms."""

from __future__ import annotations

import pathway as pw
from measuring import Ages, arguments, connect, parse

args = arguments()
ages = Ages(args.output)
COMMIT_MS = 10


class Line(pw.Schema):
    key: str
    due: int
    phase: int


class Feed(pw.io.python.ConnectorSubject):
    def run(self) -> None:
        rest = b""
        with connect(args.input) as connection:
            while data := connection.recv(1 << 16):
                whole, newline, rest = (rest + data).rpartition(b"\n")
                for line in whole.decode().split("\n") if newline else ():
                    key, due, phase = parse(line)
                    self.next(key=key, due=due, phase=phase)


class Count(pw.BaseCustomAccumulator):
    """Counts the records of a key, and notes how old each of them is."""

    def __init__(self, count: int) -> None:
        self.count = count

    @classmethod
    def from_row(cls, row: tuple[int, int]) -> Count:
        ages.note(*row)
        return cls(1)

    def update(self, other: Count) -> None:
        self.count += other.count

    def compute_result(self) -> int:
        return self.count


lines = pw.io.python.read(Feed(), schema=Line, autocommit_duration_ms=COMMIT_MS)
counted = lines.groupby(lines.key).reduce(
    lines.key, count=pw.reducers.udf_reducer(Count)(lines.due, lines.phase)
)
pw.io.null.write(counted)
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
ages.flush()
