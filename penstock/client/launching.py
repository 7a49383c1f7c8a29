"""Launches a job in this process: as leader or standby, and published for clients."""

from __future__ import annotations

from penstock.jobmanager.controller import LocalJobController
from penstock.jobmanager.high_availability.services import HighAvailability
from penstock.jobmanager.high_availability.standby import CreateMaster, campaign_of, stand_by
from penstock.options.configuration import Configuration
from penstock.rest.publish import publish, serve


def launch(create: CreateMaster, configuration: Configuration) -> LocalJobController:
    """Start a job and publish it; with high availability it runs in the leader, which may be another process."""
    services = HighAvailability.from_configuration(configuration)
    if services is None:
        controller = LocalJobController(create(configuration, None, None))
    else:
        services.check_storage()
        campaign = campaign_of(services, lambda found: serve(found, configuration))
        controller = stand_by(campaign, create, configuration)
    publish(controller, configuration)
    controller.start()
    return controller
