"""The runtime context of user functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class KeyedStateStore(ABC):
    """Returns keyed state by descriptor."""

    @abstractmethod
    def get_state(self, state_descriptor: object) -> Any:
        """Return the ValueState of a ValueStateDescriptor."""

    @abstractmethod
    def get_list_state(self, state_descriptor: Any) -> Any:
        """Return the ListState of a ListStateDescriptor."""

    @abstractmethod
    def get_map_state(self, state_descriptor: object) -> Any:
        """Return the MapState of a MapStateDescriptor."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: object) -> Any:
        """Return the ReducingState of a ReducingStateDescriptor."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: object) -> Any:
        """Return the AggregatingState of an AggregatingStateDescriptor."""


class RuntimeContext(KeyedStateStore):
    """The context in which a function runs: its task, its parallelism, its state.

    Keyed state is only available to functions on a KeyedStream.
    """

    @abstractmethod
    def get_task_name(self) -> str:
        """Return the name of the operator chain."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism of the operator."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Return the index of this subtask, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Return the attempt number of this subtask, from 0."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """Return the task's name with the subtask's number, such as `Map (1/4)#0`."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global job parameter."""

    @abstractmethod
    def get_metrics_group(self) -> Any:
        """Return the metric group of the function."""
