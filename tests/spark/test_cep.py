"""Patterns on Spark: keyed, without keys, in many epochs, after a restart."""

from __future__ import annotations

import pytest

from penstock.cep import CEP, Pattern
from penstock.common import Duration, RestartStrategies, WatermarkStrategy
from penstock.datastream import OutputTag
from penstock.testing.faults import StepFault, protocol_faults

FRAUD = (
    Pattern.begin("large").where(lambda e: e[1] > 5000)
    .followed_by("foreign").where(lambda e: e[2]).within(Duration.of_minutes(10))
)  # fmt: skip
TIMED_OUT = OutputTag("timed out")


def payments(cards=50):
    """Every card pays much at its number of seconds, and abroad 5 minutes later; every fifth one 15 minutes later."""
    events = [(card, 9000, False, card * 1000) for card in range(cards)]
    events += [(card, 10, False, card * 1000 + 60_000) for card in range(cards)]
    events += [
        (card, 10, True, card * 1000 + (900_000 if card % 5 == 0 else 300_000))
        for card in range(cards)
    ]
    return sorted(events, key=lambda event: event[3])


def stream(env, events):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    return env.from_collection(events).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(lambda event, _: event[3])
    )


@pytest.mark.parametrize("parallelism", [1, 2])
def test_each_card_is_looked_at_alone(env, parallelism):
    env.set_parallelism(parallelism)
    matches = CEP.pattern(stream(env, payments()).key_by(lambda e: e[0]), FRAUD).select(
        lambda match: match["foreign"][0][0]
    )
    with matches.execute_and_collect() as found:
        assert sorted(found) == [card for card in range(50) if card % 5]


def test_partial_matches_time_out_to_a_side_output(env):
    env.set_parallelism(2)
    matches = CEP.pattern(stream(env, payments()).key_by(lambda e: e[0]), FRAUD).select(
        lambda match: match["foreign"][0][0],
        timed_out_partial_matches_tag=TIMED_OUT,
        pattern_timeout_function=lambda match, when: (match["large"][0][0], when),
    )
    with matches.get_side_output(TIMED_OUT).execute_and_collect() as found:
        assert sorted(found) == [(card, card * 1000 + 600_000) for card in range(0, 50, 5)]


def test_a_stream_without_keys_is_one_sequence(env):
    env.set_parallelism(2)
    pattern = (
        Pattern.begin("a").next("b").where(lambda e, ctx: e > ctx.get_events_for_pattern("a")[0])
    )
    numbers = env.from_collection([1, 3, 2, 5]).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(
            Duration.of_millis(5)
        ).with_timestamp_assigner(lambda e, _: e)
    )
    pairs = CEP.pattern(numbers, pattern).select(lambda match: (match["a"][0], match["b"][0]))
    with pairs.execute_and_collect() as found:
        assert sorted(found) == [(1, 2), (2, 3), (3, 5)]


def test_partial_matches_survive_a_restart(env):
    env.set_parallelism(2)
    env.enable_checkpointing(50)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 0))
    matches = CEP.pattern(stream(env, payments()).key_by(lambda e: e[0]), FRAUD).select(
        lambda match: match["foreign"][0][0]
    )
    with (
        protocol_faults(StepFault("before write_manifest", 1)) as faults,
        matches.execute_and_collect() as found,
    ):
        assert sorted(found) == [card for card in range(50) if card % 5]
    assert len(faults.struck) == 1
