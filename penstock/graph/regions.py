"""Pipelined regions: the connected parts of a job. A pure function."""

from __future__ import annotations

from penstock.graph.job_graph import JobGraph


def find_regions(graph: JobGraph) -> tuple[tuple[str, ...], ...]:
    """Return the connected parts of a job, each as the ids of its vertices in the graph's order.

    A failure in one of them does not affect the subtasks of another.
    """
    parts: dict[str, set[str]] = {vertex.id: {vertex.id} for vertex in graph.vertices}
    for edge in graph.edges:
        one, other = parts[edge.source_vertex], parts[edge.target_vertex]
        if one is not other:
            one |= other
            for vertex in other:
                parts[vertex] = one
    order = [vertex.id for vertex in graph.vertices]
    seen: set[str] = set()
    regions = []
    for vertex in order:
        if vertex not in seen:
            seen |= parts[vertex]
            regions.append(tuple(each for each in order if each in parts[vertex]))
    return tuple(regions)
