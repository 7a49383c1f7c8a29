"""`/overview` and `/config`: the cluster as a whole."""

from __future__ import annotations

import time
from collections import Counter

from msgspec import Struct, field

import penstock
from penstock.rest.messages import Request, Response
from penstock.rest.routing.routes import Route, Services
from penstock.rest.services.taskmanagers import TaskManagers

FLINK_VERSION = "2.3.0"  # the version whose REST API this implements
_ENDED = ("FINISHED", "CANCELED", "FAILED")


class PenstockVersion(Struct, frozen=True):
    """The field `penstock` of the overview."""

    version: str = penstock.__version__


class ClusterOverview(Struct, frozen=True, kw_only=True):
    """`/overview`."""

    taskmanagers: int
    slots: int = field(name="slots-total")
    free_slots: int = field(name="slots-available")
    running: int = field(name="jobs-running")
    finished: int = field(name="jobs-finished")
    cancelled: int = field(name="jobs-cancelled")
    failed: int = field(name="jobs-failed")
    flink_version: str = field(name="flink-version", default=FLINK_VERSION)
    flink_commit: str = field(name="flink-commit", default="penstock")
    penstock: PenstockVersion = PenstockVersion()


class Features(Struct, frozen=True, kw_only=True):
    """What the web page may do."""

    submit: bool = field(name="web-submit")
    cancel: bool = field(name="web-cancel")
    rescale: bool = field(name="web-rescale")
    history: bool = field(name="web-history", default=False)


class WebConfiguration(Struct, frozen=True, kw_only=True):
    """`/config`."""

    refresh_ms: int = field(name="refresh-interval")
    timezone: str = field(name="timezone-name")
    timezone_offset_ms: int = field(name="timezone-offset")
    flink_version: str = field(name="flink-version", default=FLINK_VERSION)
    flink_revision: str = field(name="flink-revision", default=f"penstock {penstock.__version__}")
    features: Features


def _overview(services: Services, _request: Request) -> Response:
    states = Counter(job.status.name for job in services.jobs.views())
    executors = [each.executor for each in TaskManagers.now(services.jobs).all]
    return Response(
        ClusterOverview(
            taskmanagers=len(executors),
            slots=sum(each.slots for each in executors),
            free_slots=sum(max(0, each.slots - each.busy_slots) for each in executors),
            running=sum(states.values()) - sum(states[each] for each in _ENDED),
            finished=states["FINISHED"],
            cancelled=states["CANCELED"],
            failed=states["FAILED"],
        )
    )


def _config(services: Services, _request: Request) -> Response:
    local = time.localtime()
    features = Features(
        submit=services.session is not None and services.web.submit,
        cancel=services.web.cancel,
        rescale=services.web.rescale,
    )
    return Response(
        WebConfiguration(
            refresh_ms=services.web.refresh_ms,
            timezone=local.tm_zone,
            timezone_offset_ms=(local.tm_gmtoff or 0) * 1000,
            features=features,
        )
    )


ROUTES = (
    Route(
        "GET",
        "/overview",
        _overview,
        "the numbers of jobs by state, TaskManagers and slots",
        response=ClusterOverview,
    ),
    Route(
        "GET",
        "/config",
        _config,
        "the settings of the web page",
        response=WebConfiguration,
        answered_by_standbys=True,
    ),
)
