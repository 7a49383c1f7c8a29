"""Checks that the states of sink writers can be rescaled."""

from __future__ import annotations

from penstock.checkpoint.manifest import Manifest
from penstock.errors import RestoreRefusedError
from penstock.jobmanager.job import Job
from penstock.runtime.state.redistribution import count_writer_states


def check_writer_states(job: Job, manifest: Manifest) -> None:
    """Reject a plan in which one subtask of a sink would get several states that the sink cannot merge.

    Checked before the switch to the plan: afterwards every attempt would fail.
    """
    sinks = job.sinks()
    for vertex in job.plan.vertices:
        for operator in vertex.operators:
            sink = sinks.get(operator.operator_id)
            before = manifest.operators.get(operator.operator_id)
            if sink is None or before is None or before.parallelism <= vertex.parallelism:
                continue
            if sink.merges_writer_states() or before.vertex not in manifest.vertices:
                continue
            subtasks = manifest.vertices[before.vertex].subtasks
            locals_ = [subtask.local for subtask in subtasks if subtask.local is not None]
            states = count_writer_states(locals_, operator.operator_id)
            if states > vertex.parallelism:
                raise RestoreRefusedError(
                    f"sink '{operator.name}' cannot run with parallelism {vertex.parallelism}",
                    detail=f"its {before.parallelism} writers have {states} states, but {type(sink).__name__} "
                    "cannot merge them",
                    hint=f"implement {type(sink).__name__}.merge_writer_states, or give the sink a parallelism of "
                    f"at least {states}",
                )
