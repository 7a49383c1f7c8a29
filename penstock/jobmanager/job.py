"""A job as the JobMaster gets it: plans, settings, and the parts that run on the driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.checkpoint.signing import Signer
from penstock.connectors.base.source import Boundedness
from penstock.dependencies.python_dependencies import PythonDependencies
from penstock.graph.deployment import JobSettings, VertexDeployment
from penstock.graph.job_graph import JobGraph
from penstock.graph.settings import GraphSettings
from penstock.graph.stage import BarrierSettings, NetworkSettings
from penstock.graph.stage_plan import StagePlan
from penstock.graph.transformations import Transformation
from penstock.options.autoscaler_settings import AutoscalerSettings


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """The checkpoint settings of a job.

    `interval_ms` is None if checkpointing is disabled: then checkpoints are only for recovery inside this process, and `directory` is
    temporary. `restore_path` is a savepoint or another job's checkpoint to start from; `claimed` ones are deleted once unneeded.
    `restart_changed_operators`: an operator whose state belongs to another query starts without it.
    """

    directory: str
    temporary: bool
    interval_ms: int | None = None
    retained: int = 1
    history: int = 10  # checkpoints in the history of statistics
    inline_threshold: int = 20_480
    restore_path: str | None = None
    retain_on_cancel: bool = True
    claimed: bool = False
    ignore_unclaimed_state: bool = False
    allow_fallback: bool = False
    restart_changed_operators: bool = False
    signer: Signer | None = None
    savepoint_directory: str | None = None
    min_pause_ms: int = 0
    max_concurrent: int = 1
    timeout_ms: int | None = None
    tolerable_failures: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    """The user's program, from which plans are compiled."""

    transformations: tuple[Transformation, ...]
    settings: GraphSettings


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that a JobMaster needs to know."""

    job_id: str
    name: str
    program: Program
    plan: StagePlan
    job_graph: JobGraph
    deployments: tuple[VertexDeployment, ...]
    settings: JobSettings
    checkpoints: CheckpointSettings
    restart_strategy: Any  # one of penstock.common.restart_strategy
    epoch_interval_ms: int = 1000
    spark_options: dict[str, str] = field(default_factory=dict)
    dependencies: PythonDependencies = field(default_factory=PythonDependencies)
    environments_directory: str | None = None  # of installed dependencies; None: the user's cache
    autoscaler: AutoscalerSettings = field(default_factory=AutoscalerSettings)
    mode: str = "auto"
    network: NetworkSettings = field(default_factory=NetworkSettings)
    barriers: BarrierSettings = field(default_factory=BarrierSettings)
    leader: int | None = (
        None  # the fencing token of the leader that runs it, with high availability
    )
    slot_timeout_s: float | None = None  # slot request timeout; None: the default

    def sources(self) -> list[tuple[str, str, Any, int]]:
        """Return (vertex id, operator id, source, parallelism) of each source."""
        found = []
        for vertex in self.plan.vertices:
            head = vertex.operators[0]
            source = head.spec.reads_from
            if source is not None:
                found.append((vertex.id, head.operator_id, source, vertex.parallelism))
        return found

    def sinks(self) -> dict[str, Any]:
        """Return the sinks by operator id."""
        return {
            operator.operator_id: operator.spec.writes_to
            for vertex in self.plan.vertices
            for operator in vertex.operators
            if operator.spec.writes_to is not None
        }

    @property
    def interval_s(self) -> float:
        """The checkpoint interval. In epoch mode sources read for this long per epoch."""
        checkpoints = self.checkpoints
        if checkpoints.interval_ms is None:
            return self.epoch_interval_ms / 1000
        return max(checkpoints.interval_ms, checkpoints.min_pause_ms) / 1000

    @property
    def bounded(self) -> bool:
        """Whether all sources are bounded."""
        return all(
            source.get_boundedness() is Boundedness.BOUNDED for _, _, source, _ in self.sources()
        )
