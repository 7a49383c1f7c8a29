"""Flame graphs of running subtasks, in Flink's JSON: samples of their stacks, added up to a tree.

A request gets what was sampled last, and begins a new sample if that is old; so a page that asks again and again sees a new graph every
few seconds, however many pages there are.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.errors import PenstockError, UnsupportedOperationError
from penstock.graph.task_id import TaskId
from penstock.rest.published_jobs import Controller
from penstock.runtime.inspection.requests import Stacks, StackSamples

SAMPLES: Final = 100
INTERVAL_MS: Final = 20.0  # a look takes 0.05 ms, in which the subtask stands still
REFRESH_MS: Final = 10_000  # a graph that is older is made anew
_KEPT: Final = 100  # graphs
_MOST_SUBTASKS: Final = 16  # of a vertex; more would tell the same

# What Flink says in place of a time when there is no graph.
TERMINATED: Final = -1
DISABLED: Final = -2
WAITING: Final = -3


class Kind(enum.Enum):
    """Which samples count."""

    FULL = "full"
    ON_CPU = "on_cpu"
    OFF_CPU = "off_cpu"


def tree(kind: Kind, sampled: Iterable[Stacks]) -> dict[str, Any]:
    """Return samples as a tree: a node has a name, how many samples it was seen in, and its children.

    >>> stacks = Stacks(4, {("a", "b"): (2, 0), ("a", "c"): (0, 1)})
    >>> tree(Kind.ON_CPU, [stacks])
    {'name': 'root', 'value': 2, 'children': [{'name': 'a', 'value': 2, 'children': [{'name': 'b', 'value': 2, 'children': []}]}]}
    """
    root = _Node("root")
    for stacks in sampled:
        for stack, (on, off) in stacks.counts.items():
            count = {Kind.FULL: on + off, Kind.ON_CPU: on, Kind.OFF_CPU: off}[kind]
            if count:
                root.add(stack, count)
    return root.to_json()


@dataclass(slots=True)
class _Node:
    name: str
    value: int = 0
    children: dict[str, _Node] = field(default_factory=dict)

    def add(self, stack: Sequence[str], count: int) -> None:
        node = self
        node.value += count
        for name in stack:
            node = node.children.setdefault(name, _Node(name))
            node.value += count

    def to_json(self) -> dict[str, Any]:
        children = sorted(self.children.values(), key=lambda each: each.name)
        return {
            "name": self.name,
            "value": self.value,
            "children": [each.to_json() for each in children],
        }


@dataclass(slots=True)
class _Graph:
    """The graph of some subtasks: what was sampled last, and what is being sampled."""

    ended_ms: int = WAITING
    sampled: list[Stacks] = field(default_factory=list)
    asked: list[Future[Stacks]] = field(default_factory=list)
    refusal: PenstockError | None = None


class FlameGraphs:
    """The graphs that were asked for, the last hundred of them. Any thread may use it."""

    def __init__(self, samples: int = SAMPLES) -> None:
        self._lock = threading.Lock()
        self._samples = samples
        self._graphs: dict[tuple[str, tuple[TaskId, ...]], _Graph] = {}

    def get(
        self, controller: Controller, tasks: Sequence[TaskId], kind: Kind, now_ms: int
    ) -> dict[str, Any]:
        """Return what there is of some subtasks of a job, and begin to sample them if it is old."""
        chosen = tuple(tasks[:_MOST_SUBTASKS])
        with self._lock:
            key = (str(controller.get_job_id()), chosen)
            graph = self._graphs.pop(key, None) or _Graph()
            self._graphs[key] = graph  # the last one now
            while len(self._graphs) > _KEPT:
                del self._graphs[next(iter(self._graphs))]
            _collect(graph, now_ms)
            if not graph.asked and now_ms - graph.ended_ms > REFRESH_MS:
                graph.asked = [
                    controller.inspect(task, StackSamples(self._samples, INTERVAL_MS, task))
                    for task in chosen
                ]
                _collect(graph, now_ms)  # what is refused is refused at once
            sampled, ended_ms, refusal = list(graph.sampled), graph.ended_ms, graph.refusal
        if refusal is not None:
            never = isinstance(refusal, UnsupportedOperationError)
            return {
                "endTimestamp": DISABLED if never else TERMINATED,
                "penstock": {"reason": str(refusal)},
            }
        if ended_ms == WAITING:
            return {"endTimestamp": WAITING}
        return {"endTimestamp": ended_ms, "data": tree(kind, sampled)}


def _collect(graph: _Graph, now_ms: int) -> None:
    """Take what is sampled, when all of it is."""
    if not graph.asked or not all(each.done() for each in graph.asked):
        return
    asked, graph.asked = graph.asked, []
    errors = [error for each in asked if (error := each.exception()) is not None]
    sampled = [each.result() for each in asked if each.exception() is None]
    if sampled:  # subtasks that have just ended are left out
        graph.sampled, graph.ended_ms, graph.refusal = sampled, now_ms, None
        return
    graph.refusal = next((each for each in errors if isinstance(each, PenstockError)), None)
    if graph.refusal is None:
        raise errors[0]
