"""Checks that a checkpoint or savepoint fits a program, before its state is read."""

from __future__ import annotations

import logging
from dataclasses import replace

from penstock.checkpoint.manifest import Manifest
from penstock.errors import RestoreRefusedError
from penstock.jobmanager.job import Job
from penstock.jobmanager.restoring.query_checks import (
    HINT,
    check_queries,
    describe_lost,
    drop_state_of_removed_queries,
    is_of_queries,
    operator_label,
)
from penstock.jobmanager.restoring.writer_states import check_writer_states
from penstock.savepoint.operator_states import operator_states, without_operator_states
from penstock.savepoint.reader import is_savepoint, list_tables

_log = logging.getLogger(__name__)


def check_restore(job: Job, manifest: Manifest) -> Manifest:
    """Reject a checkpoint with unclaimed state, unless the options allow to drop it.

    Returns the manifest without the dropped state: output of sinks that the program does not have, operator state, and the state of
    operators that start without it because their query has changed.
    """
    _check_key_groups(job, manifest)
    check_writer_states(job, manifest)
    manifest = check_queries(job, manifest)
    lost = _lost(job, manifest)
    if job.checkpoints.restart_changed_operators:
        manifest, lost = drop_state_of_removed_queries(manifest, lost)
    if not lost:
        return manifest
    if job.checkpoints.ignore_unclaimed_state:
        shown = [f"{operator_label(manifest, name)}: {what}" for name, what in lost.items()]
        _log.warning("dropped unclaimed state, as configured: %s", "; ".join(shown))
        kept = {name: commit for name, commit in manifest.commits.items() if name not in lost}
        return without_operator_states(replace(manifest, commits=kept), lost)
    raise RestoreRefusedError(
        f"checkpoint {manifest.checkpoint_id} of job '{manifest.job_name}' has state of operators that the program does not have",
        detail=describe_lost(job, manifest, lost),
        hint=HINT
        if is_of_queries(manifest, lost)
        else "give the operators their previous uids; or, to drop the state, set "
        "execution.state-recovery.ignore-unclaimed-state (penstock run --allow-non-restored-state). "
        f"'penstock state ls {_place(job)}' lists it",
    )


def _place(job: Job) -> str:
    own = f"{job.checkpoints.directory}/{job.job_id}"
    return job.checkpoints.restore_path or own


def _check_key_groups(job: Job, manifest: Manifest) -> None:
    """Reject keyed state that was written with another max parallelism than the program sets."""
    for vertex in job.plan.vertices:
        for operator in vertex.operators:
            before = manifest.operators.get(operator.operator_id)
            if before is None or not before.is_stateful:
                continue
            if before.max_parallelism != vertex.max_parallelism:
                raise RestoreRefusedError(
                    f"{operator_label(manifest, operator.operator_id)} has max parallelism {vertex.max_parallelism}, but its keyed "
                    f"state was written with {before.max_parallelism}",
                    detail="the max parallelism is the number of key groups, which cannot change",
                    hint=f"set it to {before.max_parallelism}, or remove it (set_max_parallelism, "
                    "pipeline.max-parallelism): then that of the state is used",
                )


def _lost(job: Job, manifest: Manifest) -> dict[str, str]:
    keyed = {
        vertex.operators[position].operator_id
        for vertex in job.deployments
        for position in vertex.keyed
    }
    known = {operator.operator_id for vertex in job.deployments for operator in vertex.operators}
    lost = manifest.unmatched(known)
    for name, states in _keyed_states(job, manifest).items():
        if name in lost:
            lost[name] = f"keyed state {', '.join(map(repr, states))}"
    for name, states in operator_states(manifest).items():
        if name not in known:
            held = f"operator state {', '.join(repr(state) for state in states)}"
            lost[name] = f"{lost[name]}, {held}" if name in lost else held
    for name, operator in manifest.operators.items():
        if name in known and name not in keyed and operator.is_stateful:
            lost[name] = "keyed state, but the operator is not keyed any more"
    sources = {operator_id for _, operator_id, _, _ in job.sources()}
    for name in manifest.sources:
        if name in known and name not in sources:
            lost[name] = "positions of a source, but the operator is not a source any more"
    sinks = job.sinks()
    for name in manifest.commits:
        if name not in sinks:
            lost[name] = "output that a sink may not have committed yet"
    return lost


def _keyed_states(job: Job, manifest: Manifest) -> dict[str, list[str]]:
    """Return the names of keyed states by operator id, if they are known without reading the state: in a savepoint."""
    path = job.checkpoints.restore_path
    if path is None or manifest.job_id == job.job_id or not is_savepoint(path):
        return {}
    found: dict[str, dict[str, None]] = {}
    for table in list_tables(path, job.checkpoints.signer):
        kind, _, state = table.name.partition("/")
        name = state if kind in {"state", "window"} else table.name
        found.setdefault(table.operator, {})[name] = None
    return {operator: list(names) for operator, names in found.items()}
