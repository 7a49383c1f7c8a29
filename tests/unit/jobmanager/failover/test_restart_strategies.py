from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common.restart_strategy import (
    ExponentialDelay,
    FailureRate,
    FallBack,
    FixedDelay,
    NoRestart,
)
from penstock.errors import ArgumentTypeError
from penstock.jobmanager.failover.restart_strategies import (
    NoFurtherRestart,
    Restart,
    create_restart_strategy,
    default_restart_strategy,
)

MINUTE, HOUR = 60_000, 3_600_000
UP = "gives up"


def growing(**changes):
    values = {
        "initial_ms": 1000,
        "max_ms": MINUTE,
        "multiplier": 1.5,
        "reset_ms": HOUR,
        "jitter": 0.0,
    }
    return ExponentialDelay(**{**values, **changes})


# Each case: a configuration, the times of the failures, the delays that follow.
CASES = {
    "none": (NoRestart(), [0], [UP]),
    "fixed delay": (FixedDelay(2, 50), [0, 1, 2, 3], [50, 50, UP, UP]),
    "fixed delay, no attempt": (FixedDelay(0, 50), [0], [UP]),
    "fixed delay forgets nothing": (FixedDelay(1, 50), [0, 100 * HOUR], [50, UP]),
    "exponential delay grows by 1.5": (
        growing(),
        [0, 2000, 5000, 9000],
        [1000, 1500, 2250, 3375],
    ),
    "exponential delay stops growing": (
        growing(multiplier=10),
        [0, 2000, 20_000, 90_000, 200_000],
        [1000, 10_000, MINUTE, MINUTE, MINUTE],
    ),
    "exponential delay, calm for just too short": (
        growing(),
        [0, 1000 + HOUR - 1],
        [1000, 1500],
    ),
    "exponential delay, calm for long enough": (
        growing(),
        [0, 5000, 5000 + 1500 + HOUR],
        [1000, 1500, 1000],
    ),
    "exponential delay, calm is counted from the last restart": (
        growing(),
        [0, HOUR // 2, HOUR, 3 * HOUR],
        [1000, 1500, 2250, 1000],
    ),
    "exponential delay, attempts": (
        growing(max_attempts=2),
        [0, 2000, 5000],
        [1000, 1500, UP],
    ),
    "exponential delay, attempts start again when it was calm": (
        growing(max_attempts=2),
        [0, 2000, 2 * HOUR, 2 * HOUR + 2000, 2 * HOUR + 5000],
        [1000, 1500, 1000, 1500, UP],
    ),
    "failure rate": (FailureRate(2, 100, 5), [0, 10, 20], [5, 5, UP]),
    "failure rate, one allowed": (FailureRate(1, 100, 5), [0, 10], [5, UP]),
    "failure rate, just inside the interval": (FailureRate(1, 100, 5), [0, 100], [5, UP]),
    "failure rate, just outside": (FailureRate(1, 100, 5), [0, 101], [5, 5]),
    "failure rate, a sliding interval": (
        FailureRate(2, 100, 5),
        [0, 60, 120, 180, 190],
        [5, 5, 5, 5, UP],
    ),
}


@pytest.mark.parametrize(("config", "failures", "expected"), CASES.values(), ids=CASES.keys())
def test_after_each_failure_the_strategy_decides(config, failures, expected):
    strategy = create_restart_strategy(config, checkpointing=True, rng=random.Random(1))
    decisions = [strategy.on_failure(now) for now in failures]
    assert [UP if isinstance(d, NoFurtherRestart) else d.delay_ms for d in decisions] == expected


@pytest.mark.parametrize(
    ("config", "failures", "reason"),
    [
        (NoRestart(), 1, "the job has no restart strategy"),
        (FixedDelay(1, 50), 2, "the job was already restarted once"),
        (FixedDelay(3, 50), 4, "the job was already restarted 3 times"),
        (
            growing(max_attempts=1),
            2,
            "the job was restarted once without running for 3600000 ms in between",
        ),
        (FailureRate(2, 100, 5), 3, "the job failed more than 2 times within 100 ms"),
    ],
)
def test_giving_up_has_a_reason(config, failures, reason):
    strategy = create_restart_strategy(config, checkpointing=True)
    decisions = [strategy.on_failure(now) for now in range(failures)]
    assert decisions[-1] == NoFurtherRestart(reason)
    assert all(isinstance(decision, Restart) for decision in decisions[:-1])


@pytest.mark.parametrize(
    ("checkpointing", "expected"),
    [
        (True, ExponentialDelay(1000, MINUTE, 1.5, HOUR, 0.1, None)),
        (False, NoRestart()),
    ],
)
def test_the_default_depends_on_checkpointing(checkpointing, expected):
    assert default_restart_strategy(checkpointing=checkpointing) == expected
    for nothing in (None, FallBack()):
        found = create_restart_strategy(nothing, checkpointing=checkpointing).on_failure(0)
        assert isinstance(found, Restart) is checkpointing


@given(st.integers(0), st.floats(0, 1), st.lists(st.integers(0, 2 * HOUR), min_size=1, max_size=30))
def test_jitter_stays_within_its_share_and_below_the_maximum(seed, jitter, gaps):
    plain = create_restart_strategy(growing(), checkpointing=True)
    spread = create_restart_strategy(
        growing(jitter=jitter), checkpointing=True, rng=random.Random(seed)
    )
    now = 0
    for gap in gaps:
        now += gap
        expected, found = plain.on_failure(now).delay_ms, spread.on_failure(now).delay_ms
        assert expected * (1 - jitter) - 1 <= found <= min(expected * (1 + jitter) + 1, MINUTE)


def test_jitter_spreads_the_delays_of_many_jobs():
    config = growing(jitter=0.1)
    delays = {
        create_restart_strategy(config, checkpointing=True, rng=random.Random(seed))
        .on_failure(0)
        .delay_ms
        for seed in range(20)
    }
    assert len(delays) > 10
    assert min(delays) < 1000 < max(delays)


def test_the_default_never_gives_up():
    strategy = create_restart_strategy(None, checkpointing=True, rng=random.Random(1))
    assert all(isinstance(strategy.on_failure(now), Restart) for now in range(1000))


def test_something_else_is_not_a_restart_strategy():
    with pytest.raises(ArgumentTypeError, match="str is not a restart strategy"):
        create_restart_strategy("fixed", checkpointing=True)
