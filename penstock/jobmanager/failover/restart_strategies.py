"""Restart strategies: decide what to do after a failure. State machines without clocks.

The configurations are in `penstock.common.restart_strategy`, and read from the options in `penstock.options.restarts`; each has a
state machine here that tracks the failures of one job. `JobCore` in `penstock.jobmanager.job_master.job_core` asks it, except about
failures that a restart cannot fix (`is_permanent` in `penstock.jobmanager.job_master.failures`) and failed checkpoints that the job
tolerates (`penstock.jobmanager.checkpointing.checkpoint_failures`).
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from penstock.common.restart_strategy import (
    ExponentialDelay,
    FailureRate,
    FallBack,
    FixedDelay,
    NoRestart,
    RestartStrategyConfiguration,
)
from penstock.errors import ArgumentTypeError


@dataclass(frozen=True, slots=True)
class Restart:
    """Restart the job after a delay."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class NoFurtherRestart:
    """Fail the job."""

    reason: str


Decision = Restart | NoFurtherRestart


class RestartStrategyLogic(Protocol):
    """The restart strategy of one job."""

    def on_failure(self, now_ms: int) -> Decision:
        """Record a failure and decide. Times are monotonic."""


class NoRestartLogic:
    """Fails the job at the first failure."""

    def on_failure(self, now_ms: int) -> Decision:
        """Fail the job."""
        return NoFurtherRestart("the job has no restart strategy")


class FixedDelayLogic:
    """Restarts a number of times, with the same delay."""

    def __init__(self, config: FixedDelay) -> None:
        self._config = config
        self._failures = 0  # since the start of the job

    def on_failure(self, now_ms: int) -> Decision:
        """Restart unless all attempts are used up."""
        self._failures += 1
        if self._failures > self._config.attempts:
            return NoFurtherRestart(
                f"the job was already restarted {_times(self._config.attempts)}"
            )
        return Restart(self._config.delay_ms)


class ExponentialDelayLogic:
    """Restarts with delays that grow, until the job has run without a failure for a while."""

    def __init__(self, config: ExponentialDelay, rng: random.Random) -> None:
        self._config = config
        self._rng = rng
        self._failures = 0  # since the last reset of the delay
        self._backoff_ms = 0.0  # after the last failure, without jitter; never above the maximum
        self._restarted_ms: float | None = (
            None  # when the last restart was due; None before the first failure
        )

    def on_failure(self, now_ms: int) -> Decision:
        """Restart with the next delay unless all attempts are used up."""
        config = self._config
        calm = self._restarted_ms is None or now_ms - self._restarted_ms >= config.reset_ms
        if calm:
            self._failures, self._backoff_ms = 1, config.initial_ms
        else:
            self._failures += 1
            grown = self._backoff_ms * config.multiplier
            self._backoff_ms = min(grown, config.max_ms)
        self._restarted_ms = now_ms + self._backoff_ms
        if config.max_attempts is not None and self._failures > config.max_attempts:
            return NoFurtherRestart(
                f"the job was restarted {_times(config.max_attempts)} without running for "
                f"{config.reset_ms} ms in between"
            )
        spread = self._backoff_ms * config.jitter
        delay = round(self._backoff_ms + self._rng.uniform(-spread, spread))
        return Restart(min(delay, config.max_ms))


class FailureRateLogic:
    """Restarts unless failures are too frequent."""

    def __init__(self, config: FailureRate) -> None:
        self._config = config
        # Times of the last failures: one more than allowed, so that the oldest one shows whether there are too many.
        self._failures: deque[int] = deque(maxlen=config.max_failures + 1)

    def on_failure(self, now_ms: int) -> Decision:
        """Restart unless more than the allowed number of failures lie within the interval."""
        config = self._config
        self._failures.append(now_ms)
        full = len(self._failures) > config.max_failures
        if full and now_ms - self._failures[0] <= config.interval_ms:
            return NoFurtherRestart(
                f"the job failed more than {_times(config.max_failures)} within {config.interval_ms} ms"
            )
        return Restart(config.delay_ms)


def default_restart_strategy(*, checkpointing: bool) -> RestartStrategyConfiguration:
    """Return the default: with checkpointing a job restarts; without, it would start from scratch, so it fails."""
    return ExponentialDelay() if checkpointing else NoRestart()


def create_restart_strategy(
    config: RestartStrategyConfiguration | None,
    *,
    checkpointing: bool,
    rng: random.Random | None = None,
) -> RestartStrategyLogic:
    """Create the strategy for a job from its configuration; None and FallBack mean the default."""
    if config is None or isinstance(config, FallBack):
        config = default_restart_strategy(checkpointing=checkpointing)
    if isinstance(config, NoRestart):
        return NoRestartLogic()
    if isinstance(config, FixedDelay):
        return FixedDelayLogic(config)
    if isinstance(config, ExponentialDelay):
        return ExponentialDelayLogic(config, rng or random.Random())  # noqa: S311  spreads load only
    if isinstance(config, FailureRate):
        return FailureRateLogic(config)
    raise ArgumentTypeError(
        f"{type(config).__name__} is not a restart strategy",
        hint="use NoRestart, FixedDelay, ExponentialDelay or FailureRate",
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
