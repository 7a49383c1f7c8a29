"""`/overview` and `/config`: the cluster as a whole."""

from __future__ import annotations

import time
from collections import Counter

import penstock
from penstock.rest.messages import Request, Response
from penstock.rest.routing.routes import Route, Services
from penstock.rest.routing.schemas import (
    ANY_OBJECT,
    FLAG,
    INTEGER,
    TEXT,
    fields,
)
from penstock.rest.services.taskmanagers import TaskManagers

FLINK_VERSION = "2.3.0"  # the version whose REST API this implements
_ENDED = ("FINISHED", "CANCELED", "FAILED")


def _overview(services: Services, _request: Request) -> Response:
    jobs = services.jobs.descriptions()
    states = Counter(job["status"] for job in jobs)
    executors = [each.executor for each in TaskManagers.now(services.jobs).all]
    free = sum(max(0, each.slots - each.busy_slots) for each in executors)
    return Response(
        {
            "taskmanagers": len(executors),
            "slots-total": sum(each.slots for each in executors),
            "slots-available": free,
            "jobs-running": sum(states.values()) - sum(states[each] for each in _ENDED),
            "jobs-finished": states["FINISHED"],
            "jobs-cancelled": states["CANCELED"],
            "jobs-failed": states["FAILED"],
            "flink-version": FLINK_VERSION,
            "flink-commit": "penstock",
            "penstock": {"version": penstock.__version__},
        }
    )


def _config(services: Services, _request: Request) -> Response:
    away = time.localtime()
    return Response(
        {
            "refresh-interval": services.web.refresh_ms,
            "timezone-name": away.tm_zone,
            "timezone-offset": (away.tm_gmtoff or 0) * 1000,
            "flink-version": FLINK_VERSION,
            "flink-revision": f"penstock {penstock.__version__}",
            "features": {
                "web-submit": services.session is not None and services.web.submit,
                "web-cancel": services.web.cancel,
                "web-rescale": services.web.rescale,
                "web-history": False,
            },
        }
    )


ROUTES = (
    Route(
        "GET",
        "/overview",
        _overview,
        "the numbers of jobs by state, TaskManagers and slots",
        response=fields(
            {
                **dict.fromkeys(("taskmanagers", "slots-total", "slots-available"), INTEGER),
                **dict.fromkeys(("jobs-running", "jobs-finished"), INTEGER),
                **dict.fromkeys(("jobs-cancelled", "jobs-failed"), INTEGER),
                "flink-version": TEXT,
                "flink-commit": TEXT,
            }
        ),
    ),
    Route(
        "GET",
        "/config",
        _config,
        "the settings of the web page",
        response=fields(
            {
                "refresh-interval": INTEGER,
                "timezone-name": TEXT,
                "timezone-offset": INTEGER,
                "flink-version": TEXT,
                "flink-revision": TEXT,
                "features": fields(
                    {}, {"web-submit": FLAG, "web-cancel": FLAG, "web-rescale": FLAG}
                ),
            },
            {"penstock": ANY_OBJECT},
        ),
        answered_by_standbys=True,
    ),
)
