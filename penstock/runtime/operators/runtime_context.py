"""The runtime context of user functions."""

from __future__ import annotations

from typing import Any

from penstock.errors import InvalidProgramError
from penstock.runtime.metrics import OperatorMetricGroup


class StateInitializationContext:
    """The context of `initialize_state` of a CheckpointedFunction."""

    def __init__(self, runtime_context: StreamingRuntimeContext, operator_state: Any) -> None:
        self._runtime_context = runtime_context
        self._operator_state = operator_state

    def is_restored(self) -> bool:
        """Whether the function is restored from a checkpoint."""
        restored: bool = self._operator_state.is_restored
        return restored

    def get_operator_state_store(self) -> object:
        """Return the operator state store."""
        return self._operator_state

    def get_keyed_state_store(self) -> StreamingRuntimeContext:
        """Return the keyed state store."""
        return self._runtime_context


class StateSnapshotContext:
    """The context of `snapshot_state` of a CheckpointedFunction."""

    def __init__(self, checkpoint_id: int, now: int) -> None:
        self._checkpoint_id = checkpoint_id
        self._now = now

    def get_checkpoint_id(self) -> int:
        """Return the checkpoint id."""
        return self._checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        """Return the checkpoint timestamp in epoch milliseconds."""
        return self._now


class StreamingRuntimeContext:
    """The context passed to `open`: information about this subtask, its state, its metrics."""

    def __init__(
        self,
        *,
        task_name: str,
        subtask: int,
        parallelism: int,
        max_parallelism: int,
        attempt_number: int = 0,
        keyed_state: Any = None,
        operator_state: Any = None,
        job_parameters: dict[str, str] | None = None,
        metrics: OperatorMetricGroup | None = None,
    ) -> None:
        self._task_name = task_name
        self._subtask = subtask
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism
        self._attempt_number = attempt_number
        self._keyed_state = keyed_state
        self._operator_state = operator_state
        self._job_parameters = job_parameters or {}
        self._metrics = metrics if metrics is not None else OperatorMetricGroup()
        self._checkpointed: list[Any] = []  # the CheckpointedFunctions

    def get_task_name(self) -> str:
        """Return the name of the task."""
        return self._task_name

    def get_task_name_with_subtasks(self) -> str:
        """Return the name of the task with the subtask, as in `map (1/4)`."""
        return f"{self._task_name} ({self._subtask + 1}/{self._parallelism})"

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism."""
        return self._parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups."""
        return self._max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Return the index of this subtask, from 0."""
        return self._subtask

    def get_attempt_number(self) -> int:
        """Return the number of restarts of the job."""
        return self._attempt_number

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global job parameter."""
        return self._job_parameters.get(key, default_value)

    def get_metrics_group(self) -> OperatorMetricGroup:
        """Return the operator's metrics."""
        return self._metrics

    def get_operator_state_store(self) -> object:
        """Return the operator state store."""
        return self._operator_state

    def initialize_function(self, function: Any) -> None:
        """Initialize the state of a CheckpointedFunction; from now on it takes part in checkpoints."""
        self._checkpointed.append(function)
        function.initialize_state(StateInitializationContext(self, self._operator_state))

    def snapshot_functions(self, checkpoint_id: int, now: int) -> None:
        """Let every CheckpointedFunction write its state before the snapshot."""
        for function in self._checkpointed:
            function.snapshot_state(StateSnapshotContext(checkpoint_id, now))

    def _keyed(self, descriptor: object, kind: str) -> object:
        if self._keyed_state is None:
            raise InvalidProgramError(
                f"state '{getattr(descriptor, 'name', descriptor)}' needs a keyed stream",
                detail=f"operator '{self._task_name}' reads a stream that is not keyed",
                hint="call key_by(...) before this operator",
            )
        if getattr(descriptor, "kind", None) != kind:
            raise InvalidProgramError(
                f"a {kind} state needs a {kind} state descriptor, got {type(descriptor).__name__}",
                hint="use the descriptor class that belongs to the method",
            )
        return self._keyed_state.get_state(descriptor)

    def get_state(self, state_descriptor: object) -> object:
        """Return a ValueState."""
        return self._keyed(state_descriptor, "value")

    def get_list_state(self, state_descriptor: object) -> object:
        """Return a ListState."""
        return self._keyed(state_descriptor, "list")

    def get_map_state(self, state_descriptor: object) -> object:
        """Return a MapState."""
        return self._keyed(state_descriptor, "map")

    def get_reducing_state(self, state_descriptor: object) -> object:
        """Return a ReducingState."""
        return self._keyed(state_descriptor, "reducing")

    def get_aggregating_state(self, state_descriptor: object) -> object:
        """Return an AggregatingState."""
        return self._keyed(state_descriptor, "aggregating")
