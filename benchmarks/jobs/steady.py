"""Numbers without an end in sight, counted by key behind one exchange; a function behind it notes when it is given records.

`--input` is the number of keys, `--sleep-us` what each record costs behind the exchange, `--output` where the notes go.
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
BEAT_NS = 2_000_000
END = 1 << 40


class Count(functions.KeyedProcessFunction):
    def __init__(self, sleep_s):
        self.sleep_s = sleep_s

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        if self.sleep_s:
            time.sleep(self.sleep_s)
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield count


class Beats(functions.MapFunction):
    """Notes the moment of a record, unless it has just noted one."""

    def __init__(self, directory):
        self.directory = directory

    def open(self, runtime_context):
        os.makedirs(self.directory, exist_ok=True)
        self.file = open(os.path.join(self.directory, f"{uuid.uuid4().hex}.beats"), "ab", 0)  # noqa: SIM115
        self.noted = 0

    def map(self, value):
        now = time.time_ns()
        if now - self.noted > BEAT_NS:
            self.noted = now
            self.file.write(array.array("q", [now]).tobytes())
        return str(value)

    def close(self):
        self.file.close()


def numbers(env):
    no_watermarks = common.WatermarkStrategy.no_watermarks()
    sources = run.module("datastream.connectors.number_seq")
    return env.from_source(
        sources.NumberSequenceSource(0, END), no_watermarks, "numbers", Types.LONG()
    )


env = run.environment()
keys = int(run.args.input)
beats = (
    numbers(env)
    .key_by(lambda number: number % keys, Types.LONG())
    .process(Count(run.args.sleep_us / 1e6), Types.LONG())
    .map(Beats(run.args.output), Types.STRING())
    .filter(lambda _: False)
)
run.write(beats)
run.execute(env)
