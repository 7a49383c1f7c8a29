"""Checks that the state of a query's operators belongs to the query that is restored from it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.checkpoint.handles import StateChain
from penstock.checkpoint.manifest import Manifest
from penstock.errors import RestoreRefusedError
from penstock.graph.state_description import VERSION, StateDescription, changed_parts
from penstock.jobmanager.job import Job
from penstock.savepoint.operator_states import operator_states, without_operator_states

_log = logging.getLogger(__name__)

HINT: Final = (
    "use the query that wrote the state; or let the operators start without state with "
    "penstock.recovery.on-changed-query: restart-operator"
)


@dataclass(frozen=True, slots=True)
class _Changed:
    operator: str  # its id
    old: StateDescription
    new: StateDescription
    parts: list[str]


def check_queries(job: Job, manifest: Manifest) -> Manifest:
    """Reject state of another query, or drop it if the program allows that.

    Returns the manifest without the dropped state.
    """
    changed: list[_Changed] = []
    unknown: list[str] = []
    for operator, new in _described(job, manifest):
        old = manifest.operators[operator].description
        if old is None or old.version != VERSION:
            if (
                operator not in manifest.sources
            ):  # sources are not compared: nearly every table has one
                unknown.append(operator)
        elif parts := changed_parts(old, new):
            changed.append(_Changed(operator, old, new, parts))
    if unknown:
        _log.warning(
            "checkpoint %d of job '%s': the state of %s has no description that this version can read, so it is not compared with the query",
            manifest.checkpoint_id,
            manifest.job_name,
            "; ".join(operator_label(manifest, each) for each in unknown),
        )
    if not changed:
        return manifest
    if not job.checkpoints.restart_changed_operators:
        raise _refusal(manifest, changed)
    _check_in_flight(manifest, [each.operator for each in changed])
    for each in changed:
        _log.warning(
            "%s starts without state: its query has changed (%s). The state belongs to %s, the query is %s",
            operator_label(manifest, each.operator),
            ", ".join(each.parts),
            each.old,
            each.new,
        )
    return _without(manifest, {each.operator for each in changed})


def _described(job: Job, manifest: Manifest) -> Iterator[tuple[str, StateDescription]]:
    """Yield the operators that describe their state and have state in the manifest."""
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
        is_stateful = manifest.operators[operator].is_stateful or operator in manifest.sources
        if is_stateful or operator in held:
            yield operator, description


def _refusal(manifest: Manifest, changed: list[_Changed]) -> RestoreRefusedError:
    details = [
        f"{operator_label(manifest, each.operator)} differs in {', '.join(each.parts)}\n"
        f"  state: {each.old}\n"
        f"  query: {each.new}"
        for each in changed
    ]
    return RestoreRefusedError(
        f"checkpoint {manifest.checkpoint_id} of job '{manifest.job_name}' has state of another query",
        detail="\n".join(details),
        hint=HINT,
    )


def drop_state_of_removed_queries(
    manifest: Manifest, lost: Mapping[str, str]
) -> tuple[Manifest, dict[str, str]]:
    """Drop the state of a query's operators that the program no longer has: a changed query may have others.

    `lost` is the unclaimed state by operator. Returns the manifest, and the remaining unclaimed state.
    """
    former = {name for name in lost if _description(manifest, name) is not None}
    if not former:
        return manifest, dict(lost)
    _check_in_flight(manifest, sorted(former))
    for name in sorted(former):
        _log.warning(
            "%s is dropped: the query has changed. It belongs to %s",
            f"state of {operator_label(manifest, name)}",
            _description(manifest, name),
        )
    rest = {name: what for name, what in lost.items() if name not in former}
    return _without(manifest, former), rest


def describe_lost(job: Job, manifest: Manifest, lost: Mapping[str, str]) -> str:
    """Describe unclaimed state, one line per operator; for operators of queries with the old and the new query."""
    lines, of_queries = [], False
    for name, what in lost.items():
        lines.append(f"{operator_label(manifest, name)}: {what}")
        description = _description(manifest, name)
        if description is not None:
            of_queries = True
            lines.append(f"  state: {description}")
    if of_queries:
        lines += [
            f"  query: {operator.state_description}"
            for vertex in job.plan.vertices
            for operator in vertex.operators
            if operator.state_description is not None
            and operator.operator_id not in manifest.operators
        ]
    return "\n".join(lines)


def is_of_queries(manifest: Manifest, lost: Collection[str]) -> bool:
    """Whether all unclaimed state belongs to operators of queries."""
    return all(_description(manifest, name) is not None for name in lost)


def _description(manifest: Manifest, operator: str) -> StateDescription | None:
    found = manifest.operators.get(operator)
    return None if found is None else found.description


def _check_in_flight(manifest: Manifest, operators: Sequence[str]) -> None:
    """Reject dropping state of an unaligned checkpoint."""
    if manifest.has_in_flight_data:
        labels = ", ".join(operator_label(manifest, each) for each in operators)
        raise RestoreRefusedError(
            f"{labels} cannot start without state from an unaligned checkpoint",
            detail=f"checkpoint {manifest.checkpoint_id} contains in-flight records with the columns of the old query",
            hint="take a savepoint of the old query, and start the new one from it",
        )


def _without(manifest: Manifest, dropped: Collection[str]) -> Manifest:
    operators = {
        name: replace(operator, subtasks=(StateChain(),) * operator.parallelism)
        if name in dropped
        else operator
        for name, operator in manifest.operators.items()
    }
    sources = {name: each for name, each in manifest.sources.items() if name not in dropped}
    return without_operator_states(replace(manifest, operators=operators, sources=sources), dropped)


def operator_label(manifest: Manifest, operator_id: str) -> str:
    """Return the label of an operator of a manifest: its name, and its uid or id."""
    operator = manifest.operators.get(operator_id)
    if operator is None:
        return f"operator {operator_id}"
    uid = f"uid '{operator.uid}'" if operator.uid is not None else f"no uid, id {operator_id}"
    return f"operator '{operator.name}' ({uid})"
