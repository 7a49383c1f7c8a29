"""Static parts of a job's description: its settings, the locations of its subtasks, accumulators, slots."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.jobmanager.job import Job
from penstock.jobmanager.resources.slot_pool import SlotUse
from penstock.runtime.inspection.requests import SlotInfo

Json = dict[str, Any]


def describe_settings(job: Job) -> Json:
    """Return the settings of the whole job."""
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
    """Return the locations of subtasks by vertex id. In epoch mode tasks are short-lived, so there are none."""
    places: dict[str, list[Json]] = {}
    for slot in slots:
        for task in slot.tasks:
            place = {"subtask": task.subtask, "host": slot.host, "process": slot.process}
            places.setdefault(task.vertex, []).append(place)
    return places


def describe_accumulators(job: Job, metrics: Mapping[str, Mapping[str, Any]]) -> list[Json]:
    """Return the accumulators, summed over all subtasks and completed checkpoints."""
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
    """Return the number of slots of the cluster, of free slots, and of waiting jobs."""
    return {"total": use.total, "free": use.free, "waiting": use.waiting}
