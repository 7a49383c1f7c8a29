"""Where `penstock run --no-spark` runs jobs: a MiniCluster whose jobs the command line reaches."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.common.configuration import Configuration
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import Transformation
from penstock.jobmanager.controller import LocalJobController
from penstock.jobmanager.running.checkpoints import StepHook
from penstock.rest.publish import publish
from penstock.testing.mini_cluster import MiniCluster


class LocalCluster(MiniCluster):
    """A MiniCluster whose jobs the command line reaches."""

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
        controller = super().submit(
            transformations, settings, configuration, job_name, step_hooks=step_hooks
        )
        publish(controller, configuration)
        return controller
