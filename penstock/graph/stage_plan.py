"""The StagePlan: the job's vertices on levels, each level one Spark stage.

Compared with the JobGraph, every vertex has an index and a level, every edge has a gate number at its target, and every edge
is either local (inside a slot) or goes through the exchanges between levels. Level 0 hosts the sources, one slot per source
subtask. Slot i of a later level hosts subtask i of every vertex of that level.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.graph.describe import describe
from penstock.graph.job_graph import ChainedNode, JobEdge, JobGraph, JobVertex
from penstock.graph.partitioning import Forward, Partitioning


@dataclass(frozen=True, slots=True)
class StageInput:
    """An edge as its target sees it. Gates number the edges of a vertex; those of a union share an input index."""

    gate: int
    source_vertex: int  # vertex index
    input_index: int
    source_parallelism: int
    partitioning: Partitioning
    local: bool

    def to_json(self) -> dict[str, Any]:
        """Return the input as JSON values."""
        return {
            "gate": self.gate,
            "source_vertex": self.source_vertex,
            "input_index": self.input_index,
            "source_parallelism": self.source_parallelism,
            "partitioning": self.partitioning.NAME,
            "local": self.local,
        }


@dataclass(frozen=True, slots=True)
class StageOutput:
    """An edge as its source sees it. `operator` is the sender's index in the chain."""

    operator: int
    target_vertex: int  # vertex index
    input_index: int
    target_gate: int
    target_level: int
    target_parallelism: int
    target_max_parallelism: int
    partitioning: Partitioning
    side_tag: str | None
    local: bool

    def to_json(self) -> dict[str, Any]:
        """Return the output as JSON values."""
        return {
            "operator": self.operator,
            "target_vertex": self.target_vertex,
            "input_index": self.input_index,
            "target_gate": self.target_gate,
            "target_level": self.target_level,
            "target_parallelism": self.target_parallelism,
            "target_max_parallelism": self.target_max_parallelism,
            "partitioning": describe(self.partitioning),
            "side_tag": self.side_tag,
            "local": self.local,
        }


@dataclass(frozen=True, slots=True)
class StageVertex:
    """A vertex of the job with its position in the plan.

    `slot_offset` is the slot of the first subtask: 0 on later levels, and on level 0 the sum of the parallelisms of the
    sources before this one.
    """

    index: int
    id: str
    name: str
    level: int
    slot_offset: int
    parallelism: int
    max_parallelism: int
    operators: tuple[ChainedNode, ...]
    inputs: tuple[StageInput, ...]
    outputs: tuple[StageOutput, ...]

    @property
    def is_source(self) -> bool:
        """Whether the chain begins with a source."""
        return self.operators[0].kind == "source"

    @property
    def is_keyed(self) -> bool:
        """Whether an operator of the chain has a keyed input."""
        return any(operator.is_keyed for operator in self.operators)

    def to_json(self) -> dict[str, Any]:
        """Return the vertex as JSON values."""
        return {
            "index": self.index,
            "id": self.id,
            "name": self.name,
            "level": self.level,
            "slot_offset": self.slot_offset,
            "parallelism": self.parallelism,
            "max_parallelism": self.max_parallelism,
            "operators": [operator.operator_id for operator in self.operators],
            "inputs": [edge.to_json() for edge in self.inputs],
            "outputs": [edge.to_json() for edge in self.outputs],
        }


@dataclass(frozen=True, slots=True)
class StageLevel:
    """One Spark stage: its vertices (by index, in topological order) and its number of tasks."""

    index: int
    vertices: tuple[int, ...]
    slots: int

    def to_json(self) -> dict[str, Any]:
        """Return the level as JSON values."""
        return {"index": self.index, "vertices": list(self.vertices), "slots": self.slots}


@dataclass(frozen=True, slots=True)
class StagePlan:
    """The pipe: vertices in topological order, and the levels that host them."""

    job_name: str
    runtime_mode: str
    vertices: tuple[StageVertex, ...]
    levels: tuple[StageLevel, ...]

    def hosted(self, level: int, slot: int) -> tuple[tuple[int, int], ...]:
        """Return the subtasks that a slot hosts, as (vertex index, subtask) in topological order."""
        vertices = self.levels[level].vertices
        if level == 0:
            offsets = [self.vertices[index].slot_offset for index in vertices]
            at = bisect.bisect_right(offsets, slot) - 1
            return ((vertices[at], slot - offsets[at]),)
        return tuple((index, slot) for index in vertices if slot < self.vertices[index].parallelism)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "job_name": self.job_name,
            "runtime_mode": self.runtime_mode,
            "levels": [level.to_json() for level in self.levels],
            "vertices": [vertex.to_json() for vertex in self.vertices],
        }

    def explain(self) -> str:
        """Return the plan as text: levels, their chains, and the exchanges between them."""
        lines = [f"{self.job_name} ({self.runtime_mode}): {_count(len(self.levels), 'level')}"]
        for level in self.levels:
            lines += ["", f"level {level.index}: {_count(level.slots, 'slot')}"]
            for index in level.vertices:
                lines += self._explain_vertex(self.vertices[index])
        return "\n".join(lines)

    def _explain_vertex(self, vertex: StageVertex) -> list[str]:
        lines = [f"  [{vertex.index}] {vertex.name}  x{vertex.parallelism}"]
        for output in vertex.outputs:
            way = "local" if output.local else f"exchange to level {output.target_level}"
            origin = vertex.operators[output.operator].name if len(vertex.operators) > 1 else ""
            parts = [
                f"      {output.partitioning.NAME} -> [{output.target_vertex}] gate {output.target_gate}",
                f"from '{origin}'" if origin else "",
                f"side output '{output.side_tag}'" if output.side_tag is not None else "",
                way,
            ]
            lines.append(", ".join(part for part in parts if part))
        return lines


def generate(job_graph: JobGraph) -> StagePlan:
    """Create the StagePlan: put every vertex on the lowest level that its inputs allow."""
    places = {vertex.id: index for index, vertex in enumerate(job_graph.vertices)}
    incoming: dict[int, list[JobEdge]] = defaultdict(list)
    outgoing: dict[int, list[JobEdge]] = defaultdict(list)
    for edge in job_graph.edges:
        incoming[places[edge.target_vertex]].append(edge)
        outgoing[places[edge.source_vertex]].append(edge)
    gates: dict[int, int] = {}  # edge id -> gate at the edge's target
    for edges in incoming.values():  # ordered by input index, as the JobGraph has them
        gates |= {edge.edge_id: gate for gate, edge in enumerate(edges)}
    levels = assign_levels(
        job_graph.vertices,
        {
            target: [(places[edge.source_vertex], edge.partitioning) for edge in edges]
            for target, edges in incoming.items()
        },
    )

    def is_local(edge: JobEdge) -> bool:
        source, target = levels[places[edge.source_vertex]], levels[places[edge.target_vertex]]
        # A forward edge whose target is on a higher level because of another input crosses levels after all.
        return isinstance(edge.partitioning, Forward) and source == target

    def stage_input(edge: JobEdge) -> StageInput:
        source = places[edge.source_vertex]
        return StageInput(
            gate=gates[edge.edge_id],
            source_vertex=source,
            input_index=edge.input_index,
            source_parallelism=job_graph.vertices[source].parallelism,
            partitioning=edge.partitioning,
            local=is_local(edge),
        )

    def stage_output(edge: JobEdge) -> StageOutput:
        target = places[edge.target_vertex]
        return StageOutput(
            operator=edge.source_operator,
            target_vertex=target,
            input_index=edge.input_index,
            target_gate=gates[edge.edge_id],
            target_level=levels[target],
            target_parallelism=job_graph.vertices[target].parallelism,
            target_max_parallelism=job_graph.vertices[target].max_parallelism,
            partitioning=edge.partitioning,
            side_tag=edge.side_tag,
            local=is_local(edge),
        )

    vertices = []
    source_slots = 0
    for index, vertex in enumerate(job_graph.vertices):
        vertices.append(
            StageVertex(
                index=index,
                id=vertex.id,
                name=vertex.name,
                level=levels[index],
                slot_offset=source_slots if vertex.is_source else 0,
                parallelism=vertex.parallelism,
                max_parallelism=vertex.max_parallelism,
                operators=vertex.operators,
                inputs=tuple(map(stage_input, incoming[index])),
                outputs=tuple(map(stage_output, outgoing[index])),
            )
        )
        if vertex.is_source:
            source_slots += vertex.parallelism
    return StagePlan(
        job_name=job_graph.job_name,
        runtime_mode=job_graph.runtime_mode,
        vertices=tuple(vertices),
        levels=_levels(vertices),
    )


def assign_levels(
    vertices: Sequence[JobVertex], inputs: dict[int, list[tuple[int, Partitioning]]]
) -> list[int]:
    """Return the level of each vertex; `inputs` are (source index, partitioning) by target index.

    Only sources are on level 0. A forward edge from level 1 or later stays inside the slot, so it needs no exchange; every
    other edge leads at least one level up.
    """
    levels: list[int] = []
    for index, vertex in enumerate(vertices):
        level = 0
        for source, partitioning in inputs.get(index, ()):
            stays = isinstance(partitioning, Forward) and levels[source] >= 1
            level = max(level, levels[source] + (0 if stays else 1))
        assert vertex.is_source == (level == 0)
        levels.append(level)
    return levels


def _levels(vertices: Sequence[StageVertex]) -> tuple[StageLevel, ...]:
    hosted: dict[int, list[StageVertex]] = defaultdict(list)
    for vertex in vertices:
        hosted[vertex.level].append(vertex)
    return tuple(
        StageLevel(
            index=level,
            vertices=tuple(vertex.index for vertex in hosted[level]),
            slots=(sum if level == 0 else max)(vertex.parallelism for vertex in hosted[level]),
        )
        for level in range(len(hosted))
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
