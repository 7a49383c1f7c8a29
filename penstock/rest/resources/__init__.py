"""The resources of the REST API: one module each, with its routes."""

from __future__ import annotations

from penstock.rest.resources import checkpoints, jobs, rescaling, savepoints
from penstock.rest.routes import Route

ROUTES: tuple[Route, ...] = (
    *jobs.ROUTES,
    *checkpoints.ROUTES,
    *savepoints.ROUTES,
    *rescaling.ROUTES,
)
