"""Base classes of user-defined functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from penstock.common.user_types import Accumulator
from penstock.errors import ArgumentError, UnsupportedOperationError
from penstock.sql.types import DataType


class FunctionContext:
    """Context of a function when it is opened: metrics, job parameters, subtask."""

    def __init__(
        self,
        base_metric_group: Any,
        job_parameters: dict[str, str] | None,
        task_name: str | None = None,
        task_name_with_subtasks: str | None = None,
        number_of_parallel_subtasks: int | None = None,
        max_number_of_parallel_subtasks: int | None = None,
        index_of_this_subtask: int | None = None,
        attempt_number: int | None = None,
    ) -> None:
        self._base_metric_group = base_metric_group
        self._job_parameters = dict(job_parameters or {})
        self._task_name = task_name
        self._task_name_with_subtasks = task_name_with_subtasks
        self._number_of_parallel_subtasks = number_of_parallel_subtasks
        self._max_number_of_parallel_subtasks = max_number_of_parallel_subtasks
        self._index_of_this_subtask = index_of_this_subtask
        self._attempt_number = attempt_number

    def get_metric_group(self) -> Any:
        """Return the metrics of the operator."""
        return self._base_metric_group

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global parameter of the job."""
        return self._job_parameters.get(key, default_value)

    def get_task_name(self) -> str | None:
        """Return the name of the task."""
        return self._task_name

    def get_task_name_with_subtasks(self) -> str | None:
        """Return the name of the task with its number."""
        return self._task_name_with_subtasks

    def get_number_of_parallel_subtasks(self) -> int | None:
        """Return the parallelism."""
        return self._number_of_parallel_subtasks

    def get_max_number_of_parallel_subtasks(self) -> int | None:
        """Return the number of key groups."""
        return self._max_number_of_parallel_subtasks

    def get_index_of_this_subtask(self) -> int | None:
        """Return which of the subtasks this one is."""
        return self._index_of_this_subtask

    def get_attempt_number(self) -> int | None:
        """Return how often the task was started before."""
        return self._attempt_number


class UserDefinedFunction(ABC):  # noqa: B024 - a base class that is never instantiated
    """Base of all functions of users: opened once per task, closed at its end."""

    def open(self, function_context: FunctionContext) -> None:
        """Prepare, once per task."""

    def close(self) -> None:
        """Give back what was taken."""

    def is_deterministic(self) -> bool:
        """Whether the same operands always give the same result."""
        return True


class ScalarFunction(UserDefinedFunction):
    """A function of one row that gives one value."""

    @abstractmethod
    def eval(self, *args: Any) -> Any:
        """Return the value for operands."""


class AsyncScalarFunction(UserDefinedFunction):
    """A function of one row that gives one value, later."""

    @abstractmethod
    async def eval(self, *args: Any) -> Any:
        """Return the value for operands."""


class TableFunction(UserDefinedFunction):
    """A function of one row that gives any number of rows."""

    @abstractmethod
    def eval(self, *args: Any) -> Any:
        """Yield or return rows: Rows, tuples, or values if there is one column."""


class ImperativeAggregateFunction(UserDefinedFunction):
    """Base of functions of many rows."""

    @abstractmethod
    def create_accumulator(self) -> Accumulator:
        """Return what an empty group has."""

    @abstractmethod
    def accumulate(self, accumulator: Accumulator, *args: Any) -> None:
        """Add a row."""

    def retract(self, accumulator: Accumulator, *args: Any) -> None:
        """Retract a row."""
        raise UnsupportedOperationError(
            f"{type(self).__name__} does not support retraction", hint="implement retract()"
        )

    def merge(self, accumulator: Accumulator, accumulators: Iterable[Any]) -> None:
        """Add other accumulators to one."""
        raise UnsupportedOperationError(
            f"{type(self).__name__} does not support merge", hint="implement merge()"
        )

    def get_result_type(self) -> DataType | str:
        """Return the type of the result."""
        raise ArgumentError(
            f"unknown result type of {type(self).__name__}",
            hint="implement get_result_type(), or pass result_type to udaf()",
        )

    def get_accumulator_type(self) -> DataType | str:
        """Return the type of accumulators: they are kept as Python objects, so no type is needed."""
        raise ArgumentError(f"{type(self).__name__} does not declare its accumulator type")


class AggregateFunction(ImperativeAggregateFunction):
    """A function of many rows that gives one value."""

    @abstractmethod
    def get_value(self, accumulator: Accumulator) -> Any:
        """Return the result of a group."""


class TableAggregateFunction(ImperativeAggregateFunction):
    """A function of many rows that gives many rows."""

    @abstractmethod
    def emit_value(self, accumulator: Accumulator) -> Iterable[Any]:
        """Yield the rows of a group."""
