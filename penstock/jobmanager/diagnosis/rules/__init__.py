"""The rules of the diagnosis: each is a function from the metrics of a job to findings.

They are applied in this order, and findings of the same severity keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.jobmanager.diagnosis.findings import Finding
from penstock.jobmanager.diagnosis.metrics import JobFigures
from penstock.jobmanager.diagnosis.rules.backlog import source_backlog
from penstock.jobmanager.diagnosis.rules.bottleneck import bottleneck
from penstock.jobmanager.diagnosis.rules.checkpoints import (
    failed_checkpoints,
    large_checkpoints,
    no_checkpoints,
    slow_checkpoints,
)
from penstock.jobmanager.diagnosis.rules.late import late_records
from penstock.jobmanager.diagnosis.rules.memory import memory
from penstock.jobmanager.diagnosis.rules.restarts import restarts
from penstock.jobmanager.diagnosis.rules.skew import skew
from penstock.jobmanager.diagnosis.rules.state import growing_state
from penstock.jobmanager.diagnosis.rules.suspicious import suspicious_records
from penstock.jobmanager.diagnosis.rules.watermarks import held_back

Rule = Callable[[JobFigures], Iterable[Finding]]

RULES: tuple[Rule, ...] = (
    restarts,
    bottleneck,
    skew,
    source_backlog,
    failed_checkpoints,
    slow_checkpoints,
    large_checkpoints,
    no_checkpoints,
    held_back,
    late_records,
    suspicious_records,
    growing_state,
    memory,
)

__all__ = ["RULES", "Rule"]
