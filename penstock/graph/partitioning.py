"""Partitionings: how an edge distributes records over the subtasks of its target.

These are plain descriptions: the graph carries them, the runtime turns them into routers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Partitioning:
    """Base class of all partitionings. `NAME` is its name in Flink's plans."""

    NAME: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class Forward(Partitioning):
    """Subtask i sends to subtask i; both sides have the same parallelism."""

    NAME: ClassVar[str] = "FORWARD"


@dataclass(frozen=True, slots=True)
class Rebalance(Partitioning):
    """Records are distributed round robin over all target subtasks."""

    NAME: ClassVar[str] = "REBALANCE"


@dataclass(frozen=True, slots=True)
class Rescale(Partitioning):
    """Records are distributed round robin over the target subtasks of this sender only."""

    NAME: ClassVar[str] = "RESCALE"


@dataclass(frozen=True, slots=True)
class Shuffle(Partitioning):
    """Each record goes to a random target subtask."""

    NAME: ClassVar[str] = "SHUFFLE"


@dataclass(frozen=True, slots=True)
class Broadcast(Partitioning):
    """Each record goes to every target subtask."""

    NAME: ClassVar[str] = "BROADCAST"


@dataclass(frozen=True, slots=True)
class Global(Partitioning):
    """All records go to the first target subtask."""

    NAME: ClassVar[str] = "GLOBAL"


@dataclass(frozen=True, slots=True)
class Hash(Partitioning):
    """Records go to the subtask that owns the key group of their key; the key is sent along."""

    key_selector: Any
    NAME: ClassVar[str] = "HASH"


@dataclass(frozen=True, slots=True)
class Custom(Partitioning):
    """The user's partitioner picks the target subtask from the record's key."""

    partitioner: Any
    key_selector: Any
    NAME: ClassVar[str] = "CUSTOM"
