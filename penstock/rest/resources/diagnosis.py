"""`/penstock/jobs/<id>/diagnosis`: the diagnosis of a running job, with hints."""

from __future__ import annotations

from typing import Any, Final

from penstock.rest.messages import Request, Response
from penstock.rest.routing.routes import Route, Services


def _diagnosis(services: Services, request: Request) -> Response:
    job_id = request.parameters["jobid"]
    job = services.jobs.describe(job_id)
    if job["end_ms"] is not None:
        over = f"the job is {job['status'].lower()}"
        content: dict[str, Any] = {"health": "ok", "headline": over, "findings": [], "unknown": []}
        return Response({"timestamp": services.now_ms(), **content})
    return Response(services.diagnoses.get(services.jobs.running(job_id), services.now_ms()))


_TEXT: Final = {"type": "string"}
_SCHEMA: Final = {
    "type": "object",
    "required": ["timestamp", "health", "headline", "findings", "unknown"],
    "properties": {
        "timestamp": {"type": "integer"},
        "health": {"enum": ["ok", "info", "warning", "critical"]},
        "headline": _TEXT,
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["rule", "severity", "title", "detail", "hint"],
                "properties": {
                    "rule": _TEXT,
                    "severity": {"enum": ["info", "warning", "critical"]},
                    "title": _TEXT,
                    "detail": _TEXT,
                    "hint": _TEXT,
                    "vertex": {"type": ["string", "null"]},
                    "subtask": {"type": ["integer", "null"]},
                    "figures": {"type": "object"},
                },
            },
        },
        "unknown": {"type": "array", "items": _TEXT},
    },
}

ROUTES = (
    Route(
        "GET",
        "/penstock/jobs/:jobid/diagnosis",
        _diagnosis,
        "what slows the job down or puts it at risk, with hints: bottleneck, skew, checkpoints, watermarks, state, memory",
        response=_SCHEMA,
    ),
)
