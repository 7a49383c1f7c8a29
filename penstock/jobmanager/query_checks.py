"""Whether the state of a query's operators was made for the query that is to go on with it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from penstock.checkpoint.handles import StateChain
from penstock.checkpoint.manifest import Manifest
from penstock.errors import RestoreRefusedError
from penstock.graph.state_description import VERSION, StateDescription, changed_parts
from penstock.jobmanager.job import Job
from penstock.savepoint.operator_states import operator_states, without_operator_states

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Changed:
    operator: str  # its id
    old: StateDescription
    new: StateDescription
    parts: list[str]


def check_queries(job: Job, manifest: Manifest) -> Manifest:
    """Refuse state that was made for another query, or leave it out where the program allows that.

    Returns the manifest without what is left out.
    """
    changed: list[_Changed] = []
    unknown: list[str] = []
    for operator, new in _described(job, manifest):
        old = manifest.operators[operator].description
        if old is None or old.version != VERSION:
            unknown.append(operator)
        elif parts := changed_parts(old, new):
            changed.append(_Changed(operator, old, new, parts))
    if unknown:
        _log.warning(
            "checkpoint %d of job '%s' has no description that this version reads of the state of %s: it is not compared with the query",
            manifest.epoch,
            manifest.job_name,
            "; ".join(operator_label(manifest, each) for each in unknown),
        )
    if not changed:
        return manifest
    if not job.checkpoints.restart_changed_operators:
        raise _refusal(manifest, changed)
    if manifest.has_in_flight_data:
        raise RestoreRefusedError(
            f"{_labels(manifest, changed)} cannot start without state from an unaligned checkpoint",
            detail=f"checkpoint {manifest.epoch} holds records on their way, in the columns of the old query",
            hint="take a savepoint of the old query, and start the new one from that",
        )
    for each in changed:
        _log.warning(
            "%s starts without state: its query has changed (%s). The state was made for %s, the query is %s",
            operator_label(manifest, each.operator),
            ", ".join(each.parts),
            each.old,
            each.new,
        )
    return _without(manifest, {each.operator for each in changed})


def _described(job: Job, manifest: Manifest) -> Iterator[tuple[str, StateDescription]]:
    """Go through the operators that say what their state is for, and have some in the manifest."""
    described = {
        operator.operator_id: operator.state_description
        for vertex in job.plan.vertices
        for operator in vertex.operators
        if operator.state_description is not None and operator.operator_id in manifest.operators
    }
    if not described:
        return
    held = operator_states(manifest)
    for operator, description in described.items():
        if manifest.operators[operator].is_stateful or operator in held:
            yield operator, description


def _refusal(manifest: Manifest, changed: list[_Changed]) -> RestoreRefusedError:
    details = [
        f"{operator_label(manifest, each.operator)} differs in {', '.join(each.parts)}\n"
        f"  state: {each.old}\n"
        f"  query: {each.new}"
        for each in changed
    ]
    return RestoreRefusedError(
        f"checkpoint {manifest.epoch} of job '{manifest.job_name}' has state of another query",
        detail="\n".join(details),
        hint="go back to the query that the state was made for; or let the operators start without state, with "
        "penstock.recovery.on-changed-query: restart-operator",
    )


def _without(manifest: Manifest, dropped: Collection[str]) -> Manifest:
    operators = {
        name: replace(operator, subtasks=(StateChain(),) * operator.parallelism)
        if name in dropped
        else operator
        for name, operator in manifest.operators.items()
    }
    return without_operator_states(replace(manifest, operators=operators), dropped)


def _labels(manifest: Manifest, changed: list[_Changed]) -> str:
    return ", ".join(operator_label(manifest, each.operator) for each in changed)


def operator_label(manifest: Manifest, operator_id: str) -> str:
    """Return what to call an operator of a manifest: its name, and the uid or id."""
    operator = manifest.operators.get(operator_id)
    if operator is None:
        return f"operator {operator_id}"
    uid = f"uid '{operator.uid}'" if operator.uid is not None else f"no uid, id {operator_id}"
    return f"operator '{operator.name}' ({uid})"
