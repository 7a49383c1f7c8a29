"""The retry strategies of asynchronous functions, under PyFlink's module path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.datastream.async_functions import AsyncRetryPredicate, AsyncRetryStrategy
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.argument_checks import check_int, describe

ResultPredicate = Callable[[list[Any]], bool]
ExceptionPredicate = Callable[[Exception], bool]


class RetryPredicate(AsyncRetryPredicate[Any]):
    """Predicates on results and on exceptions; None never causes a retry."""

    def __init__(
        self,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        _check_predicate(result_predicate, "result_predicate", "the list of results")
        _check_predicate(exception_predicate, "exception_predicate", "the exception")
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate | None:
        """Return the predicate on results, or None."""
        return self._result_predicate

    def exception_predicate(self) -> ExceptionPredicate | None:
        """Return the predicate on exceptions, or None."""
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[Any]):
    """Never retries."""

    def can_retry(self, current_attempts: int) -> bool:
        """Return False."""
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return -1: there is no next attempt."""
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[Any]:
        """Return an empty predicate."""
        return RetryPredicate(None, None)


class FixedDelayRetryStrategy(AsyncRetryStrategy[Any]):
    """Retries up to `max_attempts` times, with a fixed delay."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> None:
        self._max_attempts = _positive(max_attempts, "max_attempts")
        self._backoff_time_millis = _positive(backoff_time_millis, "backoff_time_millis")
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """Whether another attempt is allowed after `current_attempts`."""
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the delay."""
        return self._backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate[Any]:
        """Return the predicate that decides whether to retry."""
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy[Any]):
    """Retries up to `max_attempts` times, with a delay that grows by `multiplier` up to `max_retry_delay`."""

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> None:
        self._max_attempts = _positive(max_attempts, "max_attempts")
        self._initial_delay = _positive(initial_delay, "initial_delay")
        self._max_retry_delay = _positive(max_retry_delay, "max_retry_delay")
        if not isinstance(multiplier, int | float) or isinstance(multiplier, bool):
            raise ArgumentTypeError(f"multiplier must be a number, got {describe(multiplier)}")
        if not multiplier > 0:
            raise ArgumentError(f"multiplier must be greater than 0, got {multiplier}")
        self._multiplier = multiplier
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """Whether another attempt is allowed after `current_attempts`."""
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the delay before the next attempt: like in PyFlink, the first one is not limited."""
        if current_attempts <= 1:
            return self._initial_delay
        try:
            delay = self._initial_delay * self._multiplier ** (current_attempts - 1)
        except OverflowError:
            return self._max_retry_delay
        return int(min(delay, self._max_retry_delay))

    def get_retry_predicate(self) -> AsyncRetryPredicate[Any]:
        """Return the predicate that decides whether to retry."""
        return self._predicate


NO_RETRY_STRATEGY: AsyncRetryStrategy[Any] = NoRetryStrategy()


def _positive(value: Any, what: str) -> int:
    if check_int(value, what) <= 0:
        raise ArgumentError(f"{what} must be greater than 0, got {value}")
    return int(value)


def _check_predicate(predicate: Any, what: str, argument: str) -> None:
    if predicate is not None and not callable(predicate):
        raise ArgumentTypeError(
            f"{what} must be a function, got {describe(predicate)}",
            hint=f"pass a function of {argument} that returns True to retry, or None",
        )


__all__ = [
    "NO_RETRY_STRATEGY",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]
