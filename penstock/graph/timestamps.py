"""Finds the steps of a program that assign timestamps, and those that emit records without any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from penstock.graph.operator_specs import OperatorSpec, OutputTimestamps
from penstock.graph.stream_graph import StreamGraph, StreamNode
from penstock.graph.transformations import OperatorTransformation, Transformation

_SHOWN = 5


class _Step(Protocol):
    """A transformation, or a node of the StreamGraph."""

    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...


_S = TypeVar("_S", bound=_Step)
_Origin = tuple[_S, OutputTimestamps]


def steps_without_timestamps(steps: Iterable[Transformation]) -> list[str]:
    """Return the steps that emit records without timestamps; empty if some records can have one.

    The runtime mode is not known yet, so timestamps in either mode count.
    """
    found = list(_origins(steps, lambda step: step.inputs, _kind_in_any_mode))
    if any(kind is not OutputTimestamps.NONE for _, kind in found):
        return []
    return [step.name for step, _ in found]


def untimed_inputs(graph: StreamGraph) -> dict[int, str]:
    """Return, by node, the text for errors about upstream operators that emit records without timestamps.

    Only nodes that need timestamps and have such operators upstream are included.
    """
    in_edges = graph.in_edges()

    def inputs(node: StreamNode) -> list[StreamNode]:
        return [graph.node(edge.source_id) for edge in in_edges[node.id]]

    said = {}
    for node in graph.nodes:
        if node.spec.needs_timestamps:
            origins = list(_origins(inputs(node), inputs, lambda each: each.spec.output_timestamps))
            never = [each.name for each, kind in origins if kind is OutputTimestamps.NONE]
            maybe = [each.name for each, kind in origins if kind is OutputTimestamps.SOME]
            if never:
                said[node.id] = f"records of {listed(never)} have no timestamps"
            elif maybe:
                said[node.id] = f"records of {listed(maybe)} may have no timestamps"
    return said


def _origins(
    steps: Iterable[_S],
    inputs: Callable[[_S], Sequence[_S]],
    kind_of: Callable[[_S], OutputTimestamps],
) -> Iterator[_Origin[_S]]:
    """Find the upstream steps that determine the timestamps of these steps' records, each with its kind."""
    waiting, seen = list(steps), set()
    while waiting:
        step = waiting.pop(0)
        if step.id in seen:
            continue
        seen.add(step.id)
        kind, before = kind_of(step), inputs(step)
        if kind is not OutputTimestamps.OF_INPUT:
            yield step, kind
        elif not before:
            yield step, OutputTimestamps.SOME  # a source that does not declare it
        if kind in {OutputTimestamps.OF_INPUT, OutputTimestamps.SOME}:
            waiting.extend(before)


def _kind_in_any_mode(step: Transformation) -> OutputTimestamps:
    """Return the output timestamps of a step, in streaming and batch mode."""
    if not isinstance(step, OperatorTransformation):
        return OutputTimestamps.OF_INPUT
    spec: OperatorSpec = step.spec
    kind = spec.output_timestamps
    return kind if kind is spec.in_batch_mode().output_timestamps else OutputTimestamps.SOME


def listed(names: Sequence[str]) -> str:
    """Return quoted names as an English list.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ("'a'", "'a', 'b' and 'c'")
    """
    shown = [f"'{name}'" for name in names[:_SHOWN]]
    if len(names) > _SHOWN:
        shown.append(f"{len(names) - _SHOWN} more")
    *first, last = shown
    return f"{', '.join(first)} and {last}" if first else last
