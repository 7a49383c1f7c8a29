"""`/penstock/jobs/<id>/diagnosis`: the diagnosis of a running job, with hints."""

from __future__ import annotations

from penstock.rest.messages import Request, Response
from penstock.rest.routing.request_targets import find_job
from penstock.rest.routing.routes import Route, Services
from penstock.rest.services.diagnoses import JobDiagnosis


def _diagnosis(services: Services, request: Request) -> Response:
    job = find_job(services, request)
    if job.ended:
        headline = f"the job is {job.status.name.lower()}"
        return Response(JobDiagnosis(services.now_ms(), "ok", headline, [], []))
    return Response(services.diagnoses.get(services.jobs.running(job.id), services.now_ms()))


ROUTES = (
    Route(
        "GET",
        "/penstock/jobs/:jobid/diagnosis",
        _diagnosis,
        "what slows the job down or puts it at risk, with hints: bottleneck, skew, checkpoints, watermarks, state, memory",
        response=JobDiagnosis,
    ),
)
