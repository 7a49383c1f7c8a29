"""Task ids: one subtask of one vertex."""

from __future__ import annotations

from typing import NamedTuple


class TaskId(NamedTuple):
    """One subtask of one vertex; `vertex` is the vertex id, which is independent of the parallelism.

    >>> str(TaskId("sum", 2))
    'sum[2]'
    """

    vertex: str
    subtask: int

    def __str__(self) -> str:
        return f"{self.vertex}[{self.subtask}]"
