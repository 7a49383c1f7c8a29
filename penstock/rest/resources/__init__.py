"""The resources of the REST API: one module each, with its routes."""

from __future__ import annotations

from penstock.rest.resources import checkpoints, jobs, rescaling, savepoints, vertex_metrics
from penstock.rest.routes import Route

ROUTES: tuple[Route, ...] = (
    *jobs.ROUTES,
    *vertex_metrics.ROUTES,
    *checkpoints.ROUTES,
    *savepoints.ROUTES,
    *rescaling.ROUTES,
)
