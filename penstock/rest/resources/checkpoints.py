"""`/jobs/<id>/checkpoints`: the latest checkpoint and the latest savepoint."""

from __future__ import annotations

from typing import Any

from penstock.rest.messages import Request, Response
from penstock.rest.routes import Route, Services


def _statistics(services: Services, request: Request) -> Response:
    job = services.jobs.describe(request.parameters["jobid"])
    epoch, directory, savepoint = job["epoch"], job["checkpoints"], job["savepoint"]
    latest = None
    if epoch:
        path = None if directory is None else f"{directory.rstrip('/')}/chk-{epoch}"
        latest = _snapshot(path, is_savepoint=False, epoch=epoch)
    return Response(
        {
            "counts": {"completed": epoch, "total": epoch, "restored": job["restarts"]},
            "latest": {
                "completed": latest,
                "savepoint": None if savepoint is None else _snapshot(savepoint, is_savepoint=True),
            },
        }
    )


def _snapshot(path: str | None, *, is_savepoint: bool, epoch: int | None = None) -> dict[str, Any]:
    return {
        **({} if epoch is None else {"id": epoch}),
        "status": "COMPLETED",
        "is_savepoint": is_savepoint,
        "checkpoint_type": "SAVEPOINT" if is_savepoint else "CHECKPOINT",
        "external_path": path,
    }


ROUTES = (
    Route(
        "GET",
        "/jobs/:jobid/checkpoints",
        _statistics,
        "how many checkpoints, the latest one and the latest savepoint",
    ),
)
