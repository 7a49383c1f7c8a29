"""What there is to tell about a job beside how it runs: its settings, where its subtasks are, what they have counted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.jobmanager.job import Job
from penstock.jobmanager.resources.slot_pool import SlotUse
from penstock.runtime.inspection.requests import SlotInfo

Json = dict[str, Any]


def describe_settings(job: Job) -> Json:
    """Return what the program and its options say about the whole job."""
    strategy = job.restart_strategy
    return {
        "type": "BATCH" if job.settings.batch_mode else "STREAMING",
        "mode": job.mode,
        "parallelism": job.program.settings.parallelism,
        "restart_strategy": strategy.get_description() if strategy is not None else "",
        "user_config": {name: str(value) for name, value in job.settings.job_parameters.items()},
        "slot_sharing_groups": {
            vertex.id: vertex.slot_sharing_group for vertex in job.job_graph.vertices
        },
    }


def describe_places(slots: Sequence[SlotInfo]) -> dict[str, list[Json]]:
    """Return where the subtasks of vertices run, by the id of the vertex. Subtasks of epochs are nowhere for long."""
    places: dict[str, list[Json]] = {}
    for slot in slots:
        for task in slot.tasks:
            place = {"subtask": task.subtask, "host": slot.host, "process": slot.process}
            places.setdefault(task.vertex, []).append(place)
    return places


def describe_accumulators(job: Job, metrics: Mapping[str, Mapping[str, Any]]) -> list[Json]:
    """Return what functions have counted over all subtasks and completed checkpoints."""
    found = []
    for vertex in job.plan.vertices:
        for operator in vertex.operators:
            for name, (kind, value) in metrics.get(operator.operator_id, {}).items():
                found.append(
                    {
                        "vertex": vertex.id,
                        "operator": operator.name,
                        "name": name,
                        "type": str(kind),
                        "value": value
                        if isinstance(value, str)
                        else json.dumps(value, default=str),
                    }
                )
    return found


def describe_slots(use: SlotUse) -> Json:
    """Return how many slots the cluster has, how many nobody holds, and how many jobs wait for some."""
    return {"total": use.total, "free": use.free, "waiting": use.waiting}
