"""Asynchronous functions and the interfaces of their retry strategies."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from penstock.datastream.basic_functions import Function
from penstock.errors import RecordError

IN = TypeVar("IN")
OUT = TypeVar("OUT")

ResultPredicate = Callable[[list[Any]], bool]
ExceptionPredicate = Callable[[Exception], bool]


class AsyncFunction(Function, Generic[IN, OUT]):
    """Calls an external system for each element, many at a time.

    `open` and `close` may be coroutines (`async def`) as well: they run in the same event loop as the calls.

    >>> class Rate(AsyncFunction):
    ...     async def open(self, runtime_context):
    ...         self.client = await connect("rates.example.com")
    ...
    ...     async def async_invoke(self, value):
    ...         return [(value, await self.client.get(value))]
    ...
    ...     def timeout(self, value):
    ...         return [(value, None)]

    The event loop runs while the operator waits for results, and pauses while other operators of the task run. So leave
    timeouts to the operator, which takes that into account, rather than to a client library.
    """

    barrier_wait_millis: ClassVar[int] = 1000
    """How long a checkpoint waits for calls in flight before it stores their elements, to call again after a restore."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """Return the results for `value`, as a list."""

    def timeout(self, value: IN) -> list[OUT]:
        """Return the results for a `value` whose call timed out; raises unless overridden."""
        raise RecordError(
            "an asynchronous call timed out",
            hint="override AsyncFunction.timeout to return a result instead",
        )


class AsyncBatchFunction(AsyncFunction[IN, OUT]):
    """Calls an external system for many elements in one call, with many calls at a time.

    >>> class Rates(AsyncBatchFunction):
    ...     max_batch_size = 50
    ...
    ...     async def async_invoke_batch(self, values):
    ...         return [[rate] for rate in await self.client.get_many(values)]
    """

    max_batch_size: ClassVar[int] = 32
    """The maximum number of elements per call; the operator's capacity counts elements, not calls."""

    @abstractmethod
    async def async_invoke_batch(self, values: list[IN]) -> list[list[OUT]]:
        """Return a list of results for each of the values, in their order."""

    async def async_invoke(self, value: IN) -> list[OUT]:
        """Return the results for one value."""
        (results,) = await self.async_invoke_batch([value])
        return results


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Decides whether a call is retried."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate | None:
        """Return the predicate on results, or None."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """Return the predicate on exceptions, or None."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """How often, and after what delay, a call is retried.

    When no attempt is left, the last result or exception is used.
    """

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether another attempt is allowed after `current_attempts`."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the delay before the next attempt."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return the predicate that decides whether to retry."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Never retry."""
        from penstock.datastream import async_retry_strategies

        return async_retry_strategies.NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> AsyncRetryStrategy[Any]:
        """Retry up to `max_attempts` times with a fixed delay."""
        from penstock.datastream.async_retry_strategies import FixedDelayRetryStrategy

        return FixedDelayRetryStrategy(
            max_attempts, backoff_time_millis, result_predicate, exception_predicate
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
        """Retry up to `max_attempts` times with a delay that grows by `multiplier`.

        >>> strategy = AsyncRetryStrategy.exponential_backoff(5, 10, 50, 2.0)
        >>> [strategy.get_backoff_time_millis(attempt) for attempt in (1, 2, 3, 4)]
        [10, 20, 40, 50]
        """
        from penstock.datastream.async_retry_strategies import ExponentialBackoffDelayRetryStrategy

        return ExponentialBackoffDelayRetryStrategy(
            max_attempts,
            initial_delay,
            max_retry_delay,
            multiplier,
            result_predicate,
            exception_predicate,
        )


class OutputMode(enum.Enum):
    """Whether results keep the order of their inputs."""

    ORDERED = 0
    UNORDERED = 1


@dataclass(frozen=True, slots=True)
class AsyncFunctionDescriptor:
    """An asynchronous call as passed on by the API."""

    async_function: AsyncFunction[Any, Any]
    timeout: Any
    capacity: int
    async_retry_strategy: AsyncRetryStrategy[Any]
    output_mode: OutputMode
