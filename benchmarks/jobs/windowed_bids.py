"""Sum and count of bids per auction in 10 s event-time windows, parsed and filtered in Python."""

from __future__ import annotations

from engine import Run

run = Run()
common, functions = run.module("common"), run.module("datastream.functions")
Types, Duration, Time = common.Types, common.Duration, common.Time


# Types are made again for each use: PyFlink cannot pickle one that it has used before.
def bid_type():
    return Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG(), Types.STRING(), Types.LONG()])


def total_type():
    return Types.TUPLE([Types.LONG(), Types.LONG()])


def parse(line):
    auction, bidder, price, channel, ts = line.split(",")
    return int(auction), int(bidder), int(price), channel, int(ts)


class BidTime(run.module("common.watermark_strategy").TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[4]


class SumAndCount(functions.AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[2], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


env = run.environment()
watermarks = common.WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
totals = (
    run.lines(env)
    .map(parse, bid_type())
    .filter(lambda bid: bid[2] > 100)
    .assign_timestamps_and_watermarks(watermarks.with_timestamp_assigner(BidTime()))
    .key_by(lambda bid: bid[0], Types.LONG())
    .window(run.module("datastream.window").TumblingEventTimeWindows.of(Time.seconds(10)))
    .aggregate(SumAndCount(), accumulator_type=total_type(), output_type=total_type())
)
run.write(totals.map(lambda total: f"{total[0]},{total[1]}", Types.STRING()))
run.execute(env)
