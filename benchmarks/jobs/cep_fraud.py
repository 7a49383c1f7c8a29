"""A large payment, followed by a foreign one within 10 minutes: CEP on the bids, taken as payments.

An auction is a card. Its price is the amount in units of 190, so that one payment in twenty is above 5000; one bidder in
twenty is abroad.
"""

from __future__ import annotations

from engine import Run

run = Run()
if run.args.engine != "penstock":
    raise SystemExit("PyFlink has no CEP: compare with cep_fraud_sql.py")
common, cep = run.module("common"), run.module("cep")
Types, Duration = common.Types, common.Duration


def parse(line):
    card, party, price, _, ts = line.split(",")
    return int(card), int(party), int(price), int(ts)


class PaymentTime(run.module("common.watermark_strategy").TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[3]


def is_large(payment):
    return payment[2] // 190 > 5000


def is_foreign(payment):
    return payment[1] % 20 == 0


fraud = (
    cep.Pattern.begin("large")
    .where(is_large)
    .followed_by("foreign")
    .where(is_foreign)
    .within(Duration.of_minutes(10))
)
env = run.environment()
watermarks = common.WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
payments = (
    run.lines(env)
    .map(parse)
    .assign_timestamps_and_watermarks(watermarks.with_timestamp_assigner(PaymentTime()))
    .key_by(lambda payment: payment[0], Types.LONG())
)
alerts = cep.CEP.pattern(payments, fraud).select(
    lambda match: f"{match['large'][0][1]},{match['foreign'][0][2]}", Types.STRING()
)
run.write(alerts)
run.execute(env)
