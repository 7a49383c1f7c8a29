"""The cluster of `penstock run --no-spark`: a MiniCluster whose jobs are published for the command line."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.launching import launch
from penstock.client.mini_cluster import MiniCluster
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import Transformation
from penstock.jobmanager.controller import LocalJobController
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.jobmanager.metrics.progress import Progress
from penstock.jobmanager.metrics.progress_displays import create_progress
from penstock.jobmanager.running.checkpoints import StepHook
from penstock.options.configuration import Configuration
from penstock.rest.publish import when_served


class LocalCluster(MiniCluster):
    """A MiniCluster whose jobs are published for the command line."""

    def submit(
        self,
        transformations: Sequence[Transformation],
        settings: GraphSettings,
        configuration: Configuration,
        job_name: str,
        *,
        step_hooks: Sequence[StepHook] = (),
    ) -> LocalJobController:
        """Start a program and publish its job."""

        def create(given: Configuration, job_id: str | None, leader: int | None) -> JobMaster:
            return self.create_master(
                transformations, settings, given, job_name,
                step_hooks=step_hooks, job_id=job_id, leader=leader,
            )  # fmt: skip

        return launch(create, configuration)

    def create_progress(self, job_name: str, configuration: Configuration) -> Progress:
        """Return what shows the progress of a job, as on Spark."""
        return create_progress(job_name, configuration, "in this process", when_served)
