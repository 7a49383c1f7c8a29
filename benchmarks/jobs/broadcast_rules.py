"""A fee for each bid by rules that are broadcast, added up per auction and given out by a timer at the end.

Bids that come before the rule of their channel wait in state, so the result does not depend on who is first.
"""

from __future__ import annotations

from engine import Run

run = Run()
common, functions = run.module("common"), run.module("datastream.functions")
Types, Duration = common.Types, common.Duration
state = run.module("datastream.state")

PERCENT = [("Google", 3), ("Facebook", 5), ("Baidu", 2), ("Apple", 30)]


# Types are made again for each use: PyFlink cannot pickle one that it has used before.
def rules_state():
    return state.MapStateDescriptor("rules", Types.STRING(), Types.LONG())


def parse(line):
    auction, _, price, channel, ts = line.split(",")
    return int(auction), int(price), channel, int(ts)


class BidTime(run.module("common.watermark_strategy").TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[3]


class Fees(functions.KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.rules = rules_state()
        self.total = runtime_context.get_state(state.ValueStateDescriptor("total", Types.LONG()))
        self.waiting = runtime_context.get_list_state(
            state.ListStateDescriptor("waiting", Types.TUPLE([Types.STRING(), Types.LONG()]))
        )

    def process_element(self, value, ctx):
        _, price, channel, _ = value
        total = self.total.value()
        if total is None:
            total = 0
            ctx.timer_service().register_event_time_timer(4_000_000_000_000)
        percent = ctx.get_broadcast_state(self.rules).get(channel)
        if percent is None:
            self.waiting.add((channel, price))
        else:
            total += price * percent // 100
        self.total.update(total)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(self.rules).put(value[0], value[1])

    def on_timer(self, timestamp, ctx):
        rules, total = ctx.get_broadcast_state(self.rules), self.total.value()
        for channel, price in self.waiting.get() or ():
            total += price * rules.get(channel) // 100
        yield f"{total},{ctx.get_current_key()}"


env = run.environment()
watermarks = common.WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
rules = env.from_collection(PERCENT, Types.TUPLE([Types.STRING(), Types.LONG()]))
bids = (
    run.lines(env)
    .map(parse, Types.TUPLE([Types.LONG(), Types.LONG(), Types.STRING(), Types.LONG()]))
    .assign_timestamps_and_watermarks(watermarks.with_timestamp_assigner(BidTime()))
    .key_by(lambda bid: bid[0], Types.LONG())
)
run.write(bids.connect(rules.broadcast(rules_state())).process(Fees(), Types.STRING()))
run.execute(env)
