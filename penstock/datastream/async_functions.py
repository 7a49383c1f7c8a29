"""Asynchronous functions and their retry strategies."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.datastream.basic_functions import Function
from penstock.errors import ArgumentError, RecordError

IN = TypeVar("IN")
OUT = TypeVar("OUT")

ResultPredicate = Callable[[Any], bool]
ExceptionPredicate = Callable[[Exception], bool]


class AsyncFunction(Function, Generic[IN, OUT]):
    """Asks something outside for each element, many at a time."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """Return the results for `value`, as a list."""

    def timeout(self, value: IN) -> list[OUT]:
        """Return the results for a `value` whose answer did not come in time; raises unless overridden."""
        raise RecordError(
            "an asynchronous call timed out",
            hint="override AsyncFunction.timeout to give a result in its place",
        )


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Decides whether a call is tried again."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate | None:
        """Return the test on results, or None."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """Return the test on exceptions, or None."""


@dataclass(frozen=True, slots=True)
class _RetryPredicate(AsyncRetryPredicate[Any]):
    result: ResultPredicate | None
    exception: ExceptionPredicate | None

    def result_predicate(self) -> ResultPredicate | None:
        return self.result

    def exception_predicate(self) -> ExceptionPredicate | None:
        return self.exception


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """How often, and after what pause, a call is tried again."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether one more attempt is allowed after `current_attempts`."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the pause before the next attempt."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return what decides whether an answer is good."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Never try again."""
        return _NoRetry()

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> AsyncRetryStrategy[Any]:
        """Try up to `max_attempts` times with the same pause between."""
        return _FixedDelay(
            max_attempts,
            backoff_time_millis,
            _RetryPredicate(result_predicate, exception_predicate),
        )

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> AsyncRetryStrategy[Any]:
        """Try up to `max_attempts` times with a pause that grows by `multiplier`.

        >>> strategy = AsyncRetryStrategy.exponential_backoff(5, 10, 50, 2.0)
        >>> [strategy.get_backoff_time_millis(attempt) for attempt in (1, 2, 3, 4)]
        [10, 20, 40, 50]
        """
        return _ExponentialBackoff(
            max_attempts,
            initial_delay,
            max_retry_delay,
            multiplier,
            _RetryPredicate(result_predicate, exception_predicate),
        )


def _check_attempts(max_attempts: int) -> None:
    if max_attempts <= 0:
        raise ArgumentError(f"max_attempts must be greater than 0, got {max_attempts}")


class _NoRetry(AsyncRetryStrategy[Any]):
    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[Any]:
        return _RetryPredicate(None, None)


@dataclass(frozen=True, slots=True)
class _FixedDelay(AsyncRetryStrategy[Any]):
    max_attempts: int
    backoff_time_millis: int
    predicate: AsyncRetryPredicate[Any]

    def __post_init__(self) -> None:
        _check_attempts(self.max_attempts)
        if self.backoff_time_millis <= 0:
            raise ArgumentError(
                f"backoff_time_millis must be greater than 0, got {self.backoff_time_millis}"
            )

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self.max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self.backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate[Any]:
        return self.predicate


@dataclass(frozen=True, slots=True)
class _ExponentialBackoff(AsyncRetryStrategy[Any]):
    max_attempts: int
    initial_delay: int
    max_retry_delay: int
    multiplier: float
    predicate: AsyncRetryPredicate[Any]

    def __post_init__(self) -> None:
        _check_attempts(self.max_attempts)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self.max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        if current_attempts <= 1:
            return self.initial_delay
        delay = self.initial_delay * self.multiplier ** (current_attempts - 1)
        return int(min(delay, self.max_retry_delay))

    def get_retry_predicate(self) -> AsyncRetryPredicate[Any]:
        return self.predicate


class OutputMode(enum.Enum):
    """Whether results keep the order of their inputs."""

    ORDERED = 0
    UNORDERED = 1


@dataclass(frozen=True, slots=True)
class AsyncFunctionDescriptor:
    """An asynchronous call as the API hands it on."""

    async_function: AsyncFunction[Any, Any]
    timeout: Any
    capacity: int
    async_retry_strategy: AsyncRetryStrategy[Any]
    output_mode: OutputMode
