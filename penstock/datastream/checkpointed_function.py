"""User functions with operator state, in addition to keyed state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from penstock.datastream.runtime_context import KeyedStateStore
from penstock.datastream.state import OperatorStateStore


class FunctionInitializationContext(ABC):
    """The context of `initialize_state`."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Whether the function is restored from a checkpoint."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the store of operator state."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Return the store of keyed state."""


class FunctionSnapshotContext(ABC):
    """The context of `snapshot_state`."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Return the checkpoint id."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Return the checkpoint's timestamp, in epoch milliseconds."""


class CheckpointedFunction(ABC):
    """A mix-in for user functions with operator state: lists that are split, united or broadcast on rescale.

    `initialize_state` runs before `open`, and `snapshot_state` at every checkpoint. A subtask may move to another worker process
    between two checkpoints, so the function may be restored at any time.

    >>> from penstock.datastream import MapFunction
    >>> from penstock.datastream.state import ListStateDescriptor
    >>> class Numbered(MapFunction, CheckpointedFunction):
    ...     def initialize_state(self, context):
    ...         store = context.get_operator_state_store()
    ...         self.state = store.get_list_state(ListStateDescriptor("count"))
    ...         self.count = sum(self.state.get())
    ...
    ...     def snapshot_state(self, context):
    ...         self.state.update([self.count])
    ...
    ...     def map(self, value):
    ...         self.count += 1
    ...         return self.count, value
    """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Get the state, and restore the function from it."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> Any:
        """Write to the state what must survive a failure."""
