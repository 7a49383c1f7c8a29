"""Lines from a socket, counted by key behind one exchange; a function behind it notes how old each of them is.

`--input` is `host:port` of a feed (`benchmarks/feed.py`), which ends the job when it hangs up; `--output` is where the ages go.
"""

from __future__ import annotations

import array
import os
import time
import uuid

from engine import Run

run = Run()
common, functions = run.module("common"), run.module("datastream.functions")
Types = common.Types
ValueStateDescriptor = run.module("datastream.state").ValueStateDescriptor
FLUSH_NS = 500_000_000


def parse(line):
    key, due, phase = line.split(",")
    return key, int(due), int(phase)


class Count(functions.KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count, value[1], value[2]


class Ages(functions.MapFunction):
    """Notes the age of each record in microseconds, with the phase that it belongs to."""

    def __init__(self, directory):
        self.directory = directory

    def open(self, runtime_context):
        os.makedirs(self.directory, exist_ok=True)
        self.path = os.path.join(self.directory, f"{uuid.uuid4().hex}.ages")
        self.ages = array.array("q")
        self.flushed = 0

    def map(self, value):
        now = time.time_ns()
        if value[3]:
            self.ages.append((now - value[2]) // 1000 * 16 + value[3])
        if now - self.flushed > FLUSH_NS:
            self.flush(now)
        return value[0]

    def flush(self, now):
        with open(self.path, "ab") as file:
            self.ages.tofile(file)
        del self.ages[:]
        self.flushed = now

    def close(self):
        self.flush(0)


def lines(env):
    host, port = run.args.input.split(":")
    if run.args.engine == "pyflink":
        from pyflink.datastream import DataStream

        # The Python API has no source that reads a socket; Flink has.
        java = env._j_stream_execution_environment.socketTextStream(host, int(port))  # noqa: SLF001
        return DataStream(java).map(lambda line: line, Types.STRING())
    from penstock.datastream.connectors.socket import SocketSource

    no_watermarks = common.WatermarkStrategy.no_watermarks()
    return env.from_source(SocketSource(host, int(port)), no_watermarks, "feed").set_parallelism(1)


env = run.environment()
env.enable_checkpointing(1000)
record = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
counted = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])
counts = (
    lines(env)
    .map(parse, record)
    .key_by(lambda value: value[0], Types.STRING())
    .process(Count(), counted)
    .map(Ages(run.args.output), Types.STRING())
    .filter(lambda _: False)
)
run.write(counts)
run.execute(env)
