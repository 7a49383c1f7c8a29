"""Whether a checkpoint or savepoint fits a program, before anything of it is read."""

from __future__ import annotations

import logging
from dataclasses import replace

from penstock.checkpoint.manifest import Manifest
from penstock.errors import RestoreRefusedError
from penstock.jobmanager.job import Job
from penstock.jobmanager.writer_states import check_writer_states

_log = logging.getLogger(__name__)


def check_restore(job: Job, manifest: Manifest) -> Manifest:
    """Refuse a checkpoint with state that the program would lose, unless it is told to leave such state behind.

    Returns the manifest without the output of sinks that the program has not, if that is left behind too.
    """
    check_writer_states(job, manifest)
    lost = _lost(job, manifest)
    if not lost:
        return manifest
    shown = "; ".join(f"{_call(manifest, operator)}: {what}" for operator, what in lost.items())
    if job.checkpoints.ignore_unclaimed_state:
        _log.warning("left behind, as asked for: %s", shown)
        kept = {name: commit for name, commit in manifest.commits.items() if name not in lost}
        return replace(manifest, commits=kept)
    raise RestoreRefusedError(
        f"checkpoint {manifest.epoch} of job '{manifest.job_name}' has state that the program has no place for",
        detail=shown,
        hint="give the operators the uids that they had; or, to leave the state behind, set "
        "execution.state-recovery.ignore-unclaimed-state (penstock run --allow-non-restored-state)",
    )


def _lost(job: Job, manifest: Manifest) -> dict[str, str]:
    keyed = {
        vertex.operators[position].operator_id
        for vertex in job.deployments
        for position in vertex.keyed
    }
    known = {operator.operator_id for vertex in job.deployments for operator in vertex.operators}
    lost = manifest.unmatched(known)
    for name, operator in manifest.operators.items():
        if name in known and name not in keyed and operator.is_stateful:
            lost[name] = "keyed state, and the operator is not keyed any more"
    sources = {operator_id for _, operator_id, _, _ in job.sources()}
    for name in manifest.sources:
        if name in known and name not in sources:
            lost[name] = "positions of a source, and the operator is no source any more"
    sinks = job.sinks()
    for name in manifest.commits:
        if name not in sinks:
            lost[name] = "output that a sink may not have published yet"
    return lost


def _call(manifest: Manifest, operator_id: str) -> str:
    operator = manifest.operators.get(operator_id)
    if operator is None:
        return f"operator {operator_id}"
    uid = f"uid '{operator.uid}'" if operator.uid is not None else f"no uid, id {operator_id}"
    return f"operator '{operator.name}' ({uid})"
