"""Bids of even and of odd bidders as two connected streams: one balance per auction, given out by a timer at the end."""

from __future__ import annotations

from engine import Run

run = Run()
common, functions = run.module("common"), run.module("datastream.functions")
Types, Duration = common.Types, common.Duration
ValueStateDescriptor = run.module("datastream.state").ValueStateDescriptor


def parse(line):
    auction, bidder, price, _, ts = line.split(",")
    return int(auction), int(bidder), int(price), int(ts)


class BidTime(run.module("common.watermark_strategy").TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[3]


class Balance(functions.KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.balance = runtime_context.get_state(ValueStateDescriptor("balance", Types.LONG()))

    def process_element1(self, value, ctx):
        self.add(value[2], ctx)

    def process_element2(self, value, ctx):
        self.add(-value[2], ctx)

    def add(self, amount, ctx):
        balance = self.balance.value()
        if balance is None:
            balance = 0
            ctx.timer_service().register_event_time_timer(4_000_000_000_000)
        self.balance.update(balance + amount)

    def on_timer(self, timestamp, ctx):
        yield f"{self.balance.value()},{ctx.get_current_key()}"


env = run.environment()
watermarks = common.WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
bids = (
    run.lines(env)
    .map(parse, Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG()]))
    .assign_timestamps_and_watermarks(watermarks.with_timestamp_assigner(BidTime()))
)
even, odd = bids.filter(lambda bid: bid[1] % 2 == 0), bids.filter(lambda bid: bid[1] % 2 == 1)
balances = (
    even.connect(odd)
    .key_by(lambda bid: bid[0], lambda bid: bid[0], Types.LONG())
    .process(Balance(), Types.STRING())
)
run.write(balances)
run.execute(env)
