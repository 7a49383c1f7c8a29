"""Windowed sums where one key has nine of ten bids, aggregated in one stage or in two (`--local-global`)."""

from __future__ import annotations

from engine import Run

run = Run()
common, functions = run.module("common"), run.module("datastream.functions")


def parse(line):
    auction, bidder, price, _, ts = line.split(",")
    hot = int(bidder) % 10 != 0
    return 0 if hot else int(auction), int(price), int(ts)


class Total(functions.AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator):
        return f"{accumulator[0]},{accumulator[1]}"

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


env = run.environment()
watermarks = common.WatermarkStrategy.for_bounded_out_of_orderness(common.Duration.of_seconds(5))
windows = (
    run.lines(env)
    .map(parse)
    .assign_timestamps_and_watermarks(watermarks.with_timestamp_assigner(lambda bid, _: bid[2]))
    .key_by(lambda bid: bid[0])
    .window(run.module("datastream.window").TumblingEventTimeWindows.of(common.Time.seconds(10)))
)
run.write(windows.aggregate(Total(), local_global=run.args.local_global))
run.execute(env)
