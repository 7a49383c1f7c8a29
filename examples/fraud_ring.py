"""A fraud ring: small test payments on a card, then a large one, from another place, within minutes.

python examples/fraud_ring.py             finds the rings in a made-up day of payments
python examples/fraud_ring.py --explain   prints the automaton of the pattern, for Graphviz
python examples/fraud_ring.py --debug     shows what the pattern does with one card's payments
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

from penstock.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Pattern,
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
)
from penstock.common import Duration, WatermarkStrategy
from penstock.datastream import OutputTag, StreamExecutionEnvironment

MINUTE = 60_000
SUSPECTS = OutputTag("suspects")


@dataclass(frozen=True)
class Payment:
    card: int
    amount: int
    place: str
    time: int


def is_small(payment):
    return payment.amount < 5


def is_large_elsewhere(payment, ctx):
    places = {test.place for test in ctx.get_events_for_pattern("tests")}
    return payment.amount > 5000 and payment.place not in places


def is_refund(payment):
    return payment.amount < 0


RING = (
    Pattern.begin("tests", AfterMatchSkipStrategy.skip_past_last_event())
    .where(lambda payment: payment.amount > 0)
    .where(is_small)
    .times_or_more(2)
    .greedy()
    .not_followed_by("refund")
    .where(is_refund)
    .followed_by("theft")
    .where(is_large_elsewhere)
    .within(Duration.of_minutes(10))
)


class Alert(PatternProcessFunction, TimedOutPartialMatchHandler):
    def process_match(self, match, ctx):
        theft = match["theft"][0]
        tests = len(match["tests"])
        yield f"card {theft.card}: {tests} test payments, then {theft.amount} in {theft.place}"

    def process_timed_out_match(self, match, ctx):
        if len(match["tests"]) >= 3:
            yield SUSPECTS, f"card {ctx.get_current_key()}: {len(match['tests'])} test payments"


def payments(cards=200, rings=5, seed=1):
    """A made-up day: ordinary payments, and some rings among them."""
    rng = random.Random(seed)
    places = ["Oslo", "Lima", "Pune", "Bonn"]
    day = [
        Payment(rng.randrange(cards), rng.randrange(5, 900), rng.choice(places), t * 40_000)
        for t in range(2000)
    ]
    for card in rng.sample(range(cards), rings):
        start = rng.randrange(60_000_000)
        day += [Payment(card, rng.randrange(1, 5), "Oslo", start + i * MINUTE) for i in range(3)]
        day.append(Payment(card, 9000 + card, "Lima", start + 5 * MINUTE))
    return sorted(day, key=lambda payment: payment.time)


def main() -> None:
    if "--explain" in sys.argv:
        print(RING.explain())
        return
    if "--debug" in sys.argv:
        day = payments()
        card = next(payment.card for payment in day if payment.amount > 9000)
        mine = [payment for payment in day if payment.card == card]
        RING.debug(mine, timestamps=[payment.time for payment in mine])
        return
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    cards = (
        env.from_collection(payments())
        .assign_timestamps_and_watermarks(
            watermarks.with_timestamp_assigner(lambda payment, _: payment.time)
        )
        .key_by(lambda payment: payment.card)
    )
    alerts = CEP.pattern(cards, RING).process(Alert()).name("fraud rings").uid("rings")
    alerts.print()
    alerts.get_side_output(SUSPECTS).print("suspect")
    env.execute("fraud ring")


if __name__ == "__main__":
    main()
