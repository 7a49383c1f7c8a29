from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from penstock.common import Configuration, Duration, RestartStrategies, RestartStrategyConfiguration
from penstock.common.restart_strategy import (
    ExponentialDelay,
    FailureRate,
    FallBack,
    FixedDelay,
    NoRestart,
    from_configuration,
)
from penstock.errors import ArgumentError, ArgumentTypeError


@pytest.mark.parametrize(
    ("strategy", "expected", "described"),
    [
        (RestartStrategies.no_restart(), NoRestart(), "deactivated"),
        (RestartStrategies.fall_back_restart(), FallBack(), "Cluster level"),
        (RestartStrategies.fixed_delay_restart(3, 10_000), FixedDelay(3, 10_000), "10000 ms"),
        (
            RestartStrategies.fixed_delay_restart(3, dt.timedelta(seconds=1)),
            FixedDelay(3, 1000),
            "#3",
        ),
        (
            RestartStrategies.failure_rate_restart(2, Duration.of_minutes(5), 10),
            FailureRate(2, 300_000, 10),
            "maximum of 2",
        ),
        (
            RestartStrategies.exponential_delay_restart(),
            ExponentialDelay(1000, 60_000, 1.5, 3_600_000, 0.1, None),
            "increasing by 1.5",
        ),
        (
            RestartStrategies.exponential_delay_restart(attempts_before_reset_backoff=4),
            ExponentialDelay(max_attempts=4),
            "4 restart attempts",
        ),
    ],
    ids=["none", "fall back", "fixed", "timedelta", "rate", "exponential", "bounded exponential"],
)
def test_a_strategy_is_plain_data(strategy, expected, described):
    assert strategy == expected
    assert hash(strategy) == hash(expected)
    assert isinstance(strategy, RestartStrategyConfiguration)
    assert described in strategy.get_description()


def test_strategies_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        FixedDelay(1, 1).attempts = 2


def test_getters_are_pyflinks():
    fixed = RestartStrategies.fixed_delay_restart(3, 10)
    assert fixed.get_restart_attempts() == 3
    assert fixed.get_delay_between_attempts_interval() == dt.timedelta(milliseconds=10)
    rate = RestartStrategies.failure_rate_restart(2, 1000, 10)
    assert rate.get_max_failure_rate() == 2
    assert rate.get_failure_interval() == dt.timedelta(seconds=1)
    assert rate.get_delay_between_attempts_interval() == dt.timedelta(milliseconds=10)


@pytest.mark.parametrize(
    ("options", "checkpointing", "expected"),
    [
        ({}, False, NoRestart()),
        ({}, True, ExponentialDelay()),
        ({"restart-strategy.type": "none"}, True, NoRestart()),
        ({"restart-strategy": "off"}, True, NoRestart()),
        ({"restart-strategy.type": "disable"}, True, NoRestart()),
        ({"restart-strategy.type": "fixed-delay"}, False, FixedDelay(1, 1000)),
        (
            {
                "restart-strategy.type": "fixeddelay",
                "restart-strategy.fixed-delay.attempts": "5",
                "restart-strategy.fixed-delay.delay": "10 s",
            },
            False,
            FixedDelay(5, 10_000),
        ),
        (
            {
                "restart-strategy.type": "failure-rate",
                "restart-strategy.failure-rate.max-failures-per-interval": 3,
                "restart-strategy.failure-rate.failure-rate-interval": "5 min",
                "restart-strategy.failure-rate.delay": "0 s",
            },
            False,
            FailureRate(3, 300_000, 0),
        ),
        (
            {
                "restart-strategy.type": "exponential-delay",
                "restart-strategy.exponential-delay.initial-backoff": "10 ms",
                "restart-strategy.exponential-delay.max-backoff": "1 s",
                "restart-strategy.exponential-delay.backoff-multiplier": "2",
                "restart-strategy.exponential-delay.reset-backoff-threshold": "1 min",
                "restart-strategy.exponential-delay.jitter-factor": "0",
                "restart-strategy.exponential-delay.attempts-before-reset-backoff": "7",
            },
            False,
            ExponentialDelay(10, 1000, 2.0, 60_000, 0.0, 7),
        ),
    ],
    ids=[
        "default",
        "default with checkpoints",
        "none",
        "off",
        "disable",
        "fixed",
        "fixed set",
        "rate",
        "exponential",
    ],
)
def test_a_configuration_says_which_strategy(options, checkpointing, expected):
    assert from_configuration(Configuration.from_dict(options), checkpointing) == expected


@pytest.mark.parametrize(
    ("create", "error"),
    [
        (lambda: RestartStrategies.fixed_delay_restart(-1, 0), ArgumentError),
        (lambda: RestartStrategies.fixed_delay_restart(1.5, 0), ArgumentTypeError),
        (lambda: RestartStrategies.fixed_delay_restart(1, "1 s"), ArgumentTypeError),
        (lambda: RestartStrategies.failure_rate_restart(0, 1, 1), ArgumentError),
        (lambda: RestartStrategies.exponential_delay_restart(10, 5), ArgumentError),
        (
            lambda: RestartStrategies.exponential_delay_restart(backoff_multiplier=0.5),
            ArgumentError,
        ),
        (lambda: RestartStrategies.exponential_delay_restart(jitter_factor=2), ArgumentError),
    ],
    ids=["attempts", "float", "delay", "rate", "shrinking", "multiplier", "jitter"],
)
def test_settings_that_make_no_sense_are_refused(create, error):
    with pytest.raises(error):
        create()
