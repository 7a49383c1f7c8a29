"""Bids of even bidders with the bids of odd ones on the same auction up to 2 s later. PyFlink has no interval join."""

from __future__ import annotations

from engine import Run

run = Run()
common, datastream = run.module("common"), run.module("datastream")
Types, Duration, Time = common.Types, common.Duration, common.Time


def parse(line):
    auction, bidder, price, _, ts = line.split(",")
    return int(auction), int(bidder), int(price), int(ts)


class BidTime(run.module("common.watermark_strategy").TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[3]


class Answer(datastream.ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield f"{left[2] + right[2]},{right[3] - left[3]}"


env = run.environment()
watermarks = common.WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
bids = (
    run.lines(env)
    .map(parse, Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG()]))
    .assign_timestamps_and_watermarks(watermarks.with_timestamp_assigner(BidTime()))
)
even, odd = bids.filter(lambda bid: bid[1] % 2 == 0), bids.filter(lambda bid: bid[1] % 2 == 1)
answers = (
    even.key_by(lambda bid: bid[0], Types.LONG())
    .interval_join(odd.key_by(lambda bid: bid[0], Types.LONG()))
    .between(Time.milliseconds(0), Time.seconds(2))
    .process(Answer(), Types.STRING())
)
run.write(answers)
run.execute(env)
