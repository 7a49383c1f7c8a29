"""Compiles a program: transformations to StreamGraph to JobGraph to StagePlan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.graph import job_graph as job_graphs
from penstock.graph import stage_plan as stage_plans
from penstock.graph import stream_graph_generator
from penstock.graph.job_graph import JobGraph
from penstock.graph.settings import GraphSettings
from penstock.graph.stage_plan import StagePlan
from penstock.graph.stream_graph import StreamGraph
from penstock.graph.transformations import Transformation

__all__ = ["GraphSettings", "Plans", "compile_program", "execution_plan", "execution_plan_json"]

_PACTS = {"source": "Data Source", "operator": "Operator", "sink": "Data Sink"}


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans of one program, from the user's view to the engine's."""

    stream_graph: StreamGraph
    job_graph: JobGraph
    stage_plan: StagePlan

    def to_json(self) -> dict[str, Any]:
        """Return all plans as JSON values."""
        return {
            "stream_graph": self.stream_graph.to_json(),
            "job_graph": self.job_graph.to_json(),
            "stage_plan": self.stage_plan.to_json(),
        }


def compile_program(
    transformations: Sequence[Transformation], settings: GraphSettings | None = None
) -> Plans:
    """Compile the program that ends in `transformations` into all its plans."""
    stream_graph = stream_graph_generator.generate(transformations, settings or GraphSettings())
    job_graph = job_graphs.generate(stream_graph)
    return Plans(stream_graph, job_graph, stage_plans.generate(job_graph))


def execution_plan(stream_graph: StreamGraph) -> dict[str, Any]:
    """Return the StreamGraph in the form that Flink's plan visualizer reads."""
    in_edges = stream_graph.in_edges()
    nodes = []
    for node in stream_graph.nodes:
        entry: dict[str, Any] = {
            "id": node.id,
            "type": node.name,
            "pact": _PACTS[node.kind],
            "contents": node.description or node.name,
            "parallelism": node.parallelism,
        }
        if in_edges[node.id]:
            # Flink writes "second" for every input, including the first one.
            entry["predecessors"] = [
                {
                    "id": edge.source_id,
                    "ship_strategy": edge.partitioning.NAME,
                    "side": "second",
                }
                for edge in in_edges[node.id]
            ]
        nodes.append(entry)
    return {"nodes": nodes}


def execution_plan_json(stream_graph: StreamGraph) -> str:
    """Return what `get_execution_plan` returns: the execution plan as JSON text."""
    return json.dumps(execution_plan(stream_graph), indent=2)
