"""A running total per auction in ValueState, given out by one timer per auction at the end of time."""

from __future__ import annotations

from engine import Run

run = Run()
common, functions = run.module("common"), run.module("datastream.functions")
Types, Duration = common.Types, common.Duration
ValueStateDescriptor = run.module("datastream.state").ValueStateDescriptor


def parse(line):
    auction, _, price, _, ts = line.split(",")
    return int(auction), int(price), int(ts)


class BidTime(run.module("common.watermark_strategy").TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class Totals(functions.KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        total = self.total.value()
        if total is None:
            total = 0
            ctx.timer_service().register_event_time_timer(4_000_000_000_000)
        self.total.update(total + value[1])

    def on_timer(self, timestamp, ctx):
        yield f"{self.total.value()},{ctx.get_current_key()}"


env = run.environment()
watermarks = common.WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
totals = (
    run.lines(env)
    .map(parse, Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()]))
    .assign_timestamps_and_watermarks(watermarks.with_timestamp_assigner(BidTime()))
    .key_by(lambda bid: bid[0], Types.LONG())
    .process(Totals(), Types.STRING())
)
run.write(totals)
run.execute(env)
