"""`/jobs/<id>/metrics` and `/jobs/metrics`: metrics of jobs as a whole."""

from __future__ import annotations

from penstock.rest.flink_json.metric_values import AggregatedMetric, MetricInfo, job_values
from penstock.rest.messages import Request, Response
from penstock.rest.resources.vertex_metrics import (
    GET,
    GET_AND_AGG,
    added_up,
    listed,
)
from penstock.rest.routing.request_targets import find_job
from penstock.rest.routing.routes import Route, Services


def _of_job(services: Services, request: Request) -> Response:
    return listed(request, job_values(find_job(services, request), services.now_ms()))


def _of_jobs(services: Services, request: Request) -> Response:
    chosen = request.query.get("jobs")
    if chosen is None:
        jobs = services.jobs.views()
    else:
        jobs = [services.jobs.view(job_id) for job_id in chosen.split(",") if job_id]
    now = services.now_ms()
    return added_up(request, [pair for job in jobs for pair in job_values(job, now).items()])


ROUTES = (
    Route(
        "GET",
        "/jobs/metrics",
        _of_jobs,
        "metrics aggregated over all jobs: `?get=numRestarts&agg=sum&jobs=...`",
        query={**GET_AND_AGG, "jobs": str},
        response=list[AggregatedMetric],
    ),
    Route(
        "GET",
        "/jobs/:jobid/metrics",
        _of_job,
        "the metric names of a job; values with `?get=numRestarts,...`",
        query=GET,
        response=list[MetricInfo],
    ),
)
