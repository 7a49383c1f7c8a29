"""What jobs ask of a cluster. Pure functions of their plans."""

from __future__ import annotations

from penstock.graph.placement import count_slots, count_slots_apart
from penstock.graph.stage import SlotDemand
from penstock.jobmanager.job import Job
from penstock.jobmanager.running.modes import AUTO


def slot_demand(job: Job, *, waits: bool = True) -> SlotDemand:
    """Return what a job needs to run as stages: a job that may run in epochs as well does not wait for that."""
    return SlotDemand(
        job.job_id,
        job.name,
        slots=count_slots(job.job_graph),
        preferred=count_slots_apart(job.job_graph),
        timeout_s=job.slot_timeout_s,
        waits=waits and job.mode != AUTO,
    )


def shared_demand(job: Job) -> SlotDemand:
    """Return what a job needs to run in epochs: to share what others do not hold."""
    return SlotDemand(job.job_id, job.name, slots=0, timeout_s=job.slot_timeout_s)
