"""Flame graphs of running subtasks, in Flink's JSON: stack samples, aggregated to a tree.

A request returns the last samples, and starts new ones if those are old. So a page that polls sees a new graph every few seconds,
however many pages there are.
"""

from __future__ import annotations

import dataclasses
import enum
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from msgspec import UNSET, Struct, UnsetType, field

from penstock.errors import PenstockError, UnsupportedOperationError
from penstock.graph.task_id import TaskId
from penstock.rest.services.published_jobs import Controller
from penstock.runtime.inspection.requests import Stacks, StackSamples

SAMPLES: Final = 100
INTERVAL_MS: Final = 20.0  # a sample takes 0.05 ms, during which the subtask is stopped
REFRESH_MS: Final = 10_000  # older graphs are sampled again
_KEPT: Final = 100  # graphs
_MOST_SUBTASKS: Final = 16  # sampled per vertex; more would not change the picture

# Flink's value of the timestamp while there is no graph.
TERMINATED: Final = -1
DISABLED: Final = -2
WAITING: Final = -3


class FlameGraphType(enum.Enum):
    """Which samples are included."""

    FULL = "full"
    ON_CPU = "on_cpu"
    OFF_CPU = "off_cpu"


class FlameNode(Struct):
    """A node of a flame graph: a function, the number of its samples, and its callees by name."""

    name: str
    value: int
    children: list[FlameNode]


class FlameGraphProblem(Struct, frozen=True):
    """Why there is no graph."""

    reason: str


class FlameGraph(Struct, frozen=True, kw_only=True):
    """A flame graph; without `data` the timestamp says why."""

    end_timestamp: int = field(name="endTimestamp")
    data: FlameNode | UnsetType = UNSET
    penstock: FlameGraphProblem | UnsetType = UNSET


def tree(kind: FlameGraphType, sampled: Iterable[Stacks]) -> FlameNode:
    """Return samples as a tree.

    >>> stacks = Stacks(4, {("a", "b"): (2, 0), ("a", "c"): (0, 1)})
    >>> tree(FlameGraphType.ON_CPU, [stacks]).children
    [FlameNode(name='a', value=2, children=[FlameNode(name='b', value=2, children=[])])]
    """
    root = _Node("root")
    for stacks in sampled:
        for stack, (on, off) in stacks.counts.items():
            count = {
                FlameGraphType.FULL: on + off,
                FlameGraphType.ON_CPU: on,
                FlameGraphType.OFF_CPU: off,
            }[kind]
            if count:
                root.add(stack, count)
    return root.sorted()


@dataclass(slots=True)
class _Node:
    name: str
    value: int = 0
    children: dict[str, _Node] = dataclasses.field(default_factory=dict)

    def add(self, stack: Sequence[str], count: int) -> None:
        node = self
        node.value += count
        for name in stack:
            node = node.children.setdefault(name, _Node(name))
            node.value += count

    def sorted(self) -> FlameNode:
        children = sorted(self.children.values(), key=lambda each: each.name)
        return FlameNode(self.name, self.value, [each.sorted() for each in children])


@dataclass(slots=True)
class _Graph:
    """The graph of some subtasks: the last samples, and those being taken."""

    ended_ms: int = WAITING
    sampled: list[Stacks] = dataclasses.field(default_factory=list)
    asked: list[Future[Stacks]] = dataclasses.field(default_factory=list)
    refusal: PenstockError | None = None


class FlameGraphs:
    """The last hundred requested graphs. Thread-safe."""

    def __init__(self, samples: int = SAMPLES) -> None:
        self._lock = threading.Lock()
        self._samples = samples
        self._graphs: dict[tuple[str, tuple[TaskId, ...]], _Graph] = {}

    def get(
        self, controller: Controller, tasks: Sequence[TaskId], kind: FlameGraphType, now_ms: int
    ) -> FlameGraph:
        """Return the graph of some subtasks of a job, and start to sample them if it is old."""
        chosen = tuple(tasks[:_MOST_SUBTASKS])
        with self._lock:
            key = (str(controller.get_job_id()), chosen)
            graph = self._graphs.pop(key, None) or _Graph()
            self._graphs[key] = graph  # move to the end: most recently used
            while len(self._graphs) > _KEPT:
                del self._graphs[next(iter(self._graphs))]
            _collect(graph, now_ms)
            if not graph.asked and now_ms - graph.ended_ms > REFRESH_MS:
                graph.asked = [
                    controller.inspect(task, StackSamples(self._samples, INTERVAL_MS, task))
                    for task in chosen
                ]
                _collect(graph, now_ms)  # a rejected request has failed already
            sampled, ended_ms, refusal = list(graph.sampled), graph.ended_ms, graph.refusal
        if refusal is not None:
            never = isinstance(refusal, UnsupportedOperationError)
            return FlameGraph(
                end_timestamp=DISABLED if never else TERMINATED,
                penstock=FlameGraphProblem(str(refusal)),
            )
        if ended_ms == WAITING:
            return FlameGraph(end_timestamp=WAITING)
        return FlameGraph(end_timestamp=ended_ms, data=tree(kind, sampled))


def _collect(graph: _Graph, now_ms: int) -> None:
    """Build the graph once all samples have arrived."""
    if not graph.asked or not all(each.done() for each in graph.asked):
        return
    asked, graph.asked = graph.asked, []
    errors = [error for each in asked if (error := each.exception()) is not None]
    sampled = [each.result() for each in asked if each.exception() is None]
    if sampled:  # subtasks that have just ended are skipped
        graph.sampled, graph.ended_ms, graph.refusal = sampled, now_ms, None
        return
    graph.refusal = next((each for each in errors if isinstance(each, PenstockError)), None)
    if graph.refusal is None:
        raise errors[0]
