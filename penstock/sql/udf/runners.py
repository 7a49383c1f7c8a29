"""User-defined functions in tasks: opening, calling and closing them."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.common.types import Row
from penstock.common.user_types import Accumulator
from penstock.errors.user_errors import call_failed, shorten_all
from penstock.logs.repeated_lines import LogLineKind, RepeatedLineFilter
from penstock.runtime.columnar.pandas_series import as_series
from penstock.sql.udf.functions import (
    AggregateFunction,
    AsyncScalarFunction,
    FunctionContext,
    ScalarFunction,
    TableFunction,
    UserDefinedFunction,
)

logger = logging.getLogger("penstock.table.function_runners")


def _read_retry(record: logging.LogRecord) -> LogLineKind:
    _, function, _, error, _ = record.args  # type: ignore[misc]
    return LogLineKind((function, repr(error)), record.getMessage(), record.levelno)


logger.addFilter(RepeatedLineFilter(_read_retry))


class CallableScalarFunction(ScalarFunction):
    """A plain callable as a scalar function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def eval(self, *args: Any) -> object:
        """Call it."""
        return self._function(*args)


class CallableAsyncFunction(AsyncScalarFunction):
    """A coroutine function as an asynchronous scalar function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    async def eval(self, *args: Any) -> object:
        """Call it and wait for it."""
        return await self._function(*args)


class CallableTableFunction(TableFunction):
    """A plain callable as a table function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def eval(self, *args: Any) -> object:
        """Call it."""
        return self._function(*args)


class CallableAggregateFunction(AggregateFunction):
    """A callable over pandas.Series as an aggregate function: an accumulator is the list of rows."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def create_accumulator(self) -> object:
        """Return no rows."""
        return []

    def accumulate(self, accumulator: Accumulator, *args: Any) -> None:
        """Keep a row."""
        accumulator.append(args)

    def retract(self, accumulator: Accumulator, *args: Any) -> None:
        """Forget a row."""
        accumulator.remove(args)

    def merge(self, accumulator: Accumulator, accumulators: Iterable[Any]) -> None:
        """Keep the rows of others."""
        for each in accumulators:
            accumulator.extend(each)

    def get_value(self, accumulator: Accumulator) -> Any:
        """Call the function with one Series per operand; with a DataFrame if it takes whole rows."""
        import pandas as pd  # type: ignore[import-untyped]

        if accumulator and len(accumulator[0]) == 1 and isinstance(accumulator[0][0], Row):
            names = accumulator[0][0].get_field_names()
            return self._function(
                pd.DataFrame([list(row) for (row,) in accumulator], columns=names)
            )
        return self._function(*(pd.Series(list(each)) for each in zip(*accumulator, strict=True)))


class RowFunction(UserDefinedFunction):
    """A function that takes the columns of a row as one Row, or those of a batch as one pandas.DataFrame."""

    def __init__(self, function: Any, names: tuple[str, ...], pandas: bool) -> None:
        self._function = function
        self._names = names
        self._pandas = pandas

    def open(self, function_context: FunctionContext) -> None:
        """Open the function."""
        self._function.open(function_context)

    def close(self) -> None:
        """Close the function."""
        self._function.close()

    def eval(self, *args: Any) -> object:
        """Call the function with the row."""
        if self._pandas:
            return self._eval_frame(args)
        return self._function.eval(self._row(args))

    def _row(self, args: tuple[Any, ...]) -> Row:
        row = Row(*args)
        row.set_field_names(self._names)
        return row

    def _eval_frame(self, args: tuple[Any, ...]) -> object:
        import pandas as pd

        given = pd.DataFrame(
            {name: as_series(each) for name, each in zip(self._names, args, strict=True)}
        )
        return self._function.eval(given)


class RowTakingAggregate(RowFunction):
    """An aggregate function whose operands are one Row."""

    def accumulate(self, accumulator: Accumulator, *args: Any) -> None:
        """Add a row."""
        self._function.accumulate(accumulator, self._row(args))

    def retract(self, accumulator: Accumulator, *args: Any) -> None:
        """Retract a row."""
        self._function.retract(accumulator, self._row(args))

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._function, name)


class FunctionRunner:
    """A function in a task: opened with a FunctionContext, or before its first call if it was not opened."""

    def __init__(self, function: UserDefinedFunction) -> None:
        self.function = function
        self._opened = False

    def open(self, runtime_context: Any) -> None:
        """Open the function."""
        self._opened = True
        self.function.open(context_of(runtime_context))

    def close(self) -> None:
        """Close the function, if it was opened."""
        if self._opened:
            self._opened = False
            self.function.close()


class ScalarRunner(FunctionRunner):
    """A scalar function in a task."""

    def __call__(self, *args: object) -> object:
        """Return the value for operands."""
        if not self._opened:
            self.open(None)
        return self.function.eval(*args)  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class AsyncCallSettings:
    """How an asynchronous scalar function is called (`table.exec.async-scalar.*`), with Flink's defaults.

    `capacity`: calls in flight. `timeout_s`: of a call with all its attempts. `retries`: attempts after the first one, `delay_s` apart.
    """

    capacity: int = 10
    timeout_s: float = 180.0
    retries: int = 3
    delay_s: float = 0.1


class AsyncRunner(FunctionRunner):
    """An asynchronous scalar function in a task: the rows of a batch are processed concurrently, up to the capacity."""

    def __init__(
        self, function: UserDefinedFunction, settings: AsyncCallSettings | None = None
    ) -> None:
        super().__init__(function)
        self.settings = settings or AsyncCallSettings()
        self._loop: asyncio.AbstractEventLoop | None = None

    def call_all(self, rows: Sequence[tuple[Any, ...]], name: str) -> list[Any]:
        """Return the values for all rows, in their order; FunctionFailedError with this name of the function."""
        if not self._opened:
            self.open(None)
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(self._gathered(rows, name))

    async def _gathered(self, rows: Sequence[tuple[Any, ...]], name: str) -> list[Any]:
        room = asyncio.Semaphore(self.settings.capacity)
        timeout_s = self.settings.timeout_s

        async def one(at: int, row: tuple[Any, ...]) -> Any:
            async with room:
                try:
                    async with asyncio.timeout(timeout_s) as limit:
                        return await self._attempts(row, name)
                except Exception as error:  # noqa: BLE001 - the user's
                    cause = error
                    if isinstance(error, TimeoutError) and limit.expired():
                        cause = _timed_out(error, timeout_s)
                    raise call_failed(name, cause, row, position=at) from cause

        calls = [asyncio.ensure_future(one(at, row)) for at, row in enumerate(rows)]
        try:
            return list(await asyncio.gather(*calls))
        except BaseException:
            # The other calls must not keep running in the loop when the next batch starts.
            for each in calls:
                each.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            raise

    async def _attempts(self, row: tuple[Any, ...], name: str) -> object:
        evaluate: Any = self.function.eval  # type: ignore[attr-defined]
        for attempt in itertools.count(1):
            try:
                return await evaluate(*row)
            except Exception as error:
                if attempt > self.settings.retries:
                    raise
                logger.warning(
                    "attempt %d of %s(%s) failed with %r, next one in %g s",
                    attempt,
                    name,
                    shorten_all(row),
                    error,
                    self.settings.delay_s,
                )
            await asyncio.sleep(self.settings.delay_s)
        raise AssertionError("unreachable: the loop ends with a result or an error")

    def close(self) -> None:
        """Close the function and its loop."""
        super().close()
        if self._loop is not None:
            self._loop.close()
            self._loop = None


def _timed_out(error: TimeoutError, timeout_s: float) -> TimeoutError:
    """Return the error of a call that took too long, with the frames that it waited in."""
    cancelled = error.__cause__
    return TimeoutError(
        f"no result after {timeout_s:g} s ('table.exec.async-scalar.timeout')"
    ).with_traceback((error if cancelled is None else cancelled).__traceback__)


class TableRunner(FunctionRunner):
    """A table function in a task."""

    def eval(self, *args: Any) -> object:
        """Return the rows for operands."""
        if not self._opened:
            self.open(None)
        return self.function.eval(*args)  # type: ignore[attr-defined]


class AggregateRunner(FunctionRunner):
    """An aggregate function in a task; its own methods do the work."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("_") or name == "function":
            raise AttributeError(name)
        return getattr(self.function, name)


def name_of_user_code(function: object) -> str:
    """Return the name of the user's class or function, without wrappers."""
    if isinstance(function, FunctionRunner):
        return name_of_user_code(function.function)
    if isinstance(function, RowFunction):
        return name_of_user_code(function._function)  # noqa: SLF001
    if isinstance(
        function,
        CallableScalarFunction
        | CallableAsyncFunction
        | CallableTableFunction
        | CallableAggregateFunction,
    ):
        called = function._function  # noqa: SLF001
        return str(getattr(called, "__name__", type(called).__name__))
    return function.__name__ if isinstance(function, type) else type(function).__name__


RUNNERS: dict[str, type[FunctionRunner]] = {
    "SCALAR": ScalarRunner,
    "TABLE": TableRunner,
    "AGGREGATE": AggregateRunner,
}


def context_of(context: object) -> FunctionContext:
    """Return the FunctionContext of a function in a task."""
    if context is None or not hasattr(context, "get_job_parameter"):
        return FunctionContext(None, None)
    return _RuntimeFunctionContext(context)


class _RuntimeFunctionContext(FunctionContext):
    """A FunctionContext that asks the context of the task."""

    def __init__(self, context: Any) -> None:
        super().__init__(
            None,
            None,
            context.get_task_name(),
            context.get_task_name_with_subtasks(),
            context.get_number_of_parallel_subtasks(),
            context.get_max_number_of_parallel_subtasks(),
            context.get_index_of_this_subtask(),
            context.get_attempt_number(),
        )
        self._context = context

    def get_metric_group(self) -> object:
        """Return the metrics of the operator."""
        return self._context.get_metrics_group()

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global parameter of the job."""
        found: str = self._context.get_job_parameter(key, default_value)
        return found
