"""AsyncDataStream: asynchronous calls for the elements of a stream, many at a time."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable
from typing import Any

from penstock.common.typeinfo import TypeInformation
from penstock.datastream import _typed
from penstock.datastream.async_functions import (
    AsyncFunction,
    AsyncFunctionDescriptor,
    AsyncRetryStrategy,
)
from penstock.datastream.async_retry_strategies import NO_RETRY_STRATEGY
from penstock.datastream.stream import DataStream
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.argument_checks import check_instance, check_int, check_object, describe
from penstock.graph.operator_specs import AsyncWaitSpec
from penstock.time.durations import Duration, Time, to_millis


class AsyncDataStream:
    """Adds asynchronous calls to a stream.

    All methods take: the stream, keyed or not; an AsyncFunction; the time after which its `timeout` returns the results of an
    element, for all attempts together (0 for never); the capacity, which is the maximum number of elements in flight in the
    operator; and the type of the results.

    >>> from penstock.datastream import StreamExecutionEnvironment
    >>> from penstock.testing import MiniCluster
    >>> class Square(AsyncFunction):
    ...     async def async_invoke(self, value):
    ...         return [value * value]
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> numbers = env.from_collection([1, 2, 3])
    >>> squares = AsyncDataStream.ordered_wait(numbers, Square(), Time.seconds(5))
    >>> with MiniCluster():
    ...     sorted(squares.execute_and_collect())
    [1, 4, 9]
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit results as soon as they are available; none overtakes a watermark."""
        return AsyncDataStream.unordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit results as soon as they are available, with retries."""
        return _add(
            data_stream,
            async_function,
            timeout,
            async_retry_strategy,
            capacity,
            output_type,
            ordered=False,
        )

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit results in the order of their elements."""
        return AsyncDataStream.ordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit results in the order of their elements, with retries."""
        return _add(
            data_stream,
            async_function,
            timeout,
            async_retry_strategy,
            capacity,
            output_type,
            ordered=True,
        )


def _add(
    stream: DataStream,
    function: AsyncFunction[Any, Any],
    timeout: object,
    strategy: AsyncRetryStrategy[Any],
    capacity: int,
    output_type: Any,
    *,
    ordered: bool,
) -> DataStream:
    check_instance(stream, DataStream, "data_stream", hint="pass the stream as first argument")
    _check_function(function)
    check_int(capacity, "capacity", minimum=1)
    retries = _check_strategy(strategy)
    millis = _check_timeout(timeout, needed=strategy is not NO_RETRY_STRATEGY)
    kind = _typed.check_type(output_type)
    max_batch = None
    if hasattr(function, "async_invoke_batch"):
        max_batch = check_int(
            getattr(function, "max_batch_size", 32), "max_batch_size of the function", minimum=1
        )
    spec = AsyncWaitSpec(
        function,
        ordered=ordered,
        timeout=millis,
        capacity=capacity,
        retry_strategy=strategy if retries else None,
        max_batch=max_batch,
        barrier_wait=check_int(
            getattr(function, "barrier_wait_millis", 1000),
            "barrier_wait_millis of the function",
            minimum=0,
        ),
    )
    return stream.transform("async wait operator", spec, kind)


def _check_function(function: Any) -> None:
    check_object(
        function,
        AsyncFunction,
        ("async_invoke", "timeout"),
        hint="derive a class from AsyncFunction and pass an object of it",
    )
    _check_async(function, "async_invoke")
    if hasattr(function, "async_invoke_batch"):
        _check_async(function, "async_invoke_batch")
    if inspect.iscoroutinefunction(function.timeout):
        raise ArgumentTypeError(
            f"method 'timeout' of class '{type(function).__name__}' must not be declared as 'async def'",
            detail="it returns a result when there is no time left to wait for one",
        )


def _check_async(function: object, name: str) -> None:
    method: Callable[..., Any] = getattr(function, name)
    if not inspect.iscoroutinefunction(method):
        raise ArgumentTypeError(
            f"method '{name}' of class '{type(function).__name__}' should be declared as 'async def'",
            hint="for a call that blocks, write: await asyncio.get_running_loop().run_in_executor(None, call)",
        )


def _check_strategy(strategy: Any) -> bool:
    """Return whether the strategy ever retries."""
    if strategy is None:
        raise ArgumentTypeError(
            "async_retry_strategy must not be None", hint="use AsyncRetryStrategy.no_restart()"
        )
    check_object(
        strategy,
        AsyncRetryStrategy,
        ("can_retry", "get_backoff_time_millis", "get_retry_predicate"),
        hint="create one with AsyncRetryStrategy.fixed_delay(...) or exponential_backoff(...)",
    )
    predicate = strategy.get_retry_predicate()
    if predicate is None:
        raise ArgumentTypeError(
            f"the retry predicate of {type(strategy).__name__} is None",
            hint="return an AsyncRetryPredicate from get_retry_predicate",
        )
    tests = (predicate.result_predicate(), predicate.exception_predicate())
    return any(test is not None for test in tests)


def _check_timeout(timeout: Any, *, needed: bool) -> int:
    if not isinstance(timeout, Time | Duration | dt.timedelta):
        raise ArgumentTypeError(
            f"timeout must be a Time, got {describe(timeout)}",
            hint="use Time.seconds(5), or Time.milliseconds(0) for no timeout",
        )
    millis = to_millis(timeout, "timeout", minimum=0)
    if needed and millis == 0:
        raise ArgumentError(
            "a timeout is required with retries",
            hint="set it to the total time of all attempts and the delays between them",
        )
    return millis


__all__ = ["AsyncDataStream", "AsyncFunction", "AsyncFunctionDescriptor", "AsyncRetryStrategy"]
