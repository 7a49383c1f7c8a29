"""Restart strategies: whether, and after what delay, a failed job starts again. Plain descriptions."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from penstock import options
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.options.configuration import Configuration
from penstock.options.option_checks import warn_of_short_time
from penstock.time.durations import to_millis


def _delta(millis: int) -> dt.timedelta:
    return dt.timedelta(milliseconds=millis)


def _count(value: Any, what: str, minimum: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"{what} is not an int: {value!r}")
    if value < minimum:
        raise ArgumentError(f"{what} must be at least {minimum}, not {value}")
    return value


@dataclass(frozen=True, slots=True)
class RestartStrategyConfiguration:
    """Base of all restart strategies."""

    def get_description(self) -> str:
        """Return the strategy in words."""
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class NoRestart(RestartStrategyConfiguration):
    """The first failure is final."""

    def get_description(self) -> str:
        """Return the strategy in words."""
        return "Restart deactivated."


@dataclass(frozen=True, slots=True)
class FallBack(RestartStrategyConfiguration):
    """The cluster's strategy."""

    def get_description(self) -> str:
        """Return the strategy in words."""
        return "Cluster level default restart strategy"


@dataclass(frozen=True, slots=True)
class FixedDelay(RestartStrategyConfiguration):
    """A number of restarts, each after the same delay."""

    attempts: int = 1
    delay_ms: int = 1000

    def get_restart_attempts(self) -> int:
        """Return how often the job may start again."""
        return self.attempts

    def get_delay_between_attempts_interval(self) -> dt.timedelta:
        """Return the delay before a restart."""
        return _delta(self.delay_ms)

    def get_description(self) -> str:
        """Return the strategy in words."""
        return f"Restart with fixed delay ({self.delay_ms} ms). #{self.attempts} restart attempts."


@dataclass(frozen=True, slots=True)
class FailureRate(RestartStrategyConfiguration):
    """Restarts after a delay, as long as there are not too many failures within an interval."""

    max_failures: int = 1
    interval_ms: int = 60_000
    delay_ms: int = 1000

    def get_max_failure_rate(self) -> int:
        """Return how many failures within the interval are endured."""
        return self.max_failures

    def get_failure_interval(self) -> dt.timedelta:
        """Return the interval that failures are counted in."""
        return _delta(self.interval_ms)

    def get_delay_between_attempts_interval(self) -> dt.timedelta:
        """Return the delay before a restart."""
        return _delta(self.delay_ms)

    def get_description(self) -> str:
        """Return the strategy in words."""
        return (
            f"Failure rate restart with maximum of {self.max_failures} failures within interval "
            f"{self.interval_ms} ms and fixed delay {self.delay_ms} ms."
        )


@dataclass(frozen=True, slots=True)
class ExponentialDelay(RestartStrategyConfiguration):
    """Restarts after delays that grow from failure to failure.

    After `reset_ms` without a failure the delay is reset. `max_attempts` is the maximum number of failures in a row;
    None: any number.
    """

    initial_ms: int = 1000
    max_ms: int = 60_000
    multiplier: float = 1.5
    reset_ms: int = 3_600_000
    jitter: float = 0.1
    max_attempts: int | None = None

    def __post_init__(self) -> None:
        if self.initial_ms < 1 or self.max_ms < self.initial_ms:
            raise ArgumentError(
                f"invalid backoff: initial {self.initial_ms} ms, maximum {self.max_ms} ms",
                hint="the initial backoff must be at least 1 ms and at most the maximum",
            )
        if self.multiplier < 1:
            raise ArgumentError(f"the backoff multiplier must be at least 1, not {self.multiplier}")
        if not 0 <= self.jitter <= 1:
            raise ArgumentError(f"the jitter factor must be between 0 and 1, not {self.jitter}")

    def get_description(self) -> str:
        """Return the strategy in words."""
        bound = "" if self.max_attempts is None else f", {self.max_attempts} restart attempts"
        return (
            f"Restart with exponential delay: starting at {self.initial_ms} ms, increasing by "
            f"{self.multiplier}, with maximum {self.max_ms} ms{bound}. Delay resets after "
            f"{self.reset_ms} ms with jitter {self.jitter}"
        )


class RestartStrategies:
    """Where users find all restart strategies. Delays are milliseconds, a timedelta or a Duration."""

    NoRestartStrategyConfiguration = NoRestart
    FixedDelayRestartStrategyConfiguration = FixedDelay
    FailureRateRestartStrategyConfiguration = FailureRate
    ExponentialDelayRestartStrategyConfiguration = ExponentialDelay
    FallbackRestartStrategyConfiguration = FallBack

    @staticmethod
    def no_restart() -> NoRestart:
        """Fail for good at the first failure."""
        return NoRestart()

    @staticmethod
    def fall_back_restart() -> FallBack:
        """Do what the cluster is configured to do."""
        return FallBack()

    @staticmethod
    def fixed_delay_restart(restart_attempts: int, delay_between_attempts: object) -> FixedDelay:
        """Start again a number of times, each after the same delay."""
        warn_of_short_time(options.FIXED_DELAY_DELAY.key, delay_between_attempts)
        return FixedDelay(
            _count(restart_attempts, "restart_attempts"),
            to_millis(delay_between_attempts, "delay_between_attempts", minimum=0),
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: object, delay_interval: object
    ) -> FailureRate:
        """Restart unless more than `failure_rate` failures occur within an interval."""
        warn_of_short_time(options.FAILURE_RATE_DELAY.key, delay_interval)
        return FailureRate(
            _count(failure_rate, "failure_rate", 1),
            to_millis(failure_interval, "failure_interval", minimum=1),
            to_millis(delay_interval, "delay_interval", minimum=0),
        )

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: object = 1000,
        max_backoff: object = 60_000,
        backoff_multiplier: float = 1.5,
        reset_backoff_threshold: object = 3_600_000,
        jitter_factor: float = 0.1,
        attempts_before_reset_backoff: int | None = None,
    ) -> ExponentialDelay:
        """Start again after delays that grow from failure to failure. The defaults are Flink's."""
        attempts = attempts_before_reset_backoff
        return ExponentialDelay(
            to_millis(initial_backoff, "initial_backoff", minimum=1),
            to_millis(max_backoff, "max_backoff", minimum=1),
            float(backoff_multiplier),
            to_millis(reset_backoff_threshold, "reset_backoff_threshold", minimum=1),
            float(jitter_factor),
            None if attempts is None else _count(attempts, "attempts_before_reset_backoff", 1),
        )


def from_configuration(
    configuration: Configuration, checkpointing_enabled: bool
) -> RestartStrategyConfiguration:
    """Return the strategy that a configuration asks for.

    Without one, as in Flink: exponential delay with checkpointing, no restart without.
    """
    get = configuration.get
    kind = get(options.RESTART_TYPE)
    if kind is None:
        kind = "exponential-delay" if checkpointing_enabled else "none"
    kind = kind.replace("-", "")
    if kind == "fixeddelay":
        return FixedDelay(
            get(options.FIXED_DELAY_ATTEMPTS), get(options.FIXED_DELAY_DELAY).to_millis()
        )
    if kind == "failurerate":
        return FailureRate(
            get(options.FAILURE_RATE_MAX),
            get(options.FAILURE_RATE_INTERVAL).to_millis(),
            get(options.FAILURE_RATE_DELAY).to_millis(),
        )
    if kind == "exponentialdelay":
        return ExponentialDelay(
            get(options.EXPONENTIAL_INITIAL).to_millis(),
            get(options.EXPONENTIAL_MAX).to_millis(),
            get(options.EXPONENTIAL_MULTIPLIER),
            get(options.EXPONENTIAL_RESET).to_millis(),
            get(options.EXPONENTIAL_JITTER),
            get(options.EXPONENTIAL_ATTEMPTS),
        )
    return NoRestart()


__all__ = [
    "ExponentialDelay",
    "FailureRate",
    "FallBack",
    "FixedDelay",
    "NoRestart",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "from_configuration",
]
