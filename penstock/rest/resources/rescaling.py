"""Rescaling: changes of the parallelism of a running job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from http import HTTPStatus
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

from penstock.jobmanager.job_view import VertexView
from penstock.rest.flink_json.parts import Empty, Id, NoFields
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.request_targets import find_job
from penstock.rest.routing.routes import Route, Services
from penstock.rest.services.operations import Outcome, Standing, TriggerId
from penstock.rest.services.published_jobs import Controller

_RESCALE = "rescale"


Parallelism = Annotated[int, Meta(ge=1, le=32768, description="a positive integer, 32768 at most")]


class Bounds(Struct, frozen=True):
    """The parallelism that a vertex may have."""

    lower: int = field(name="lowerBound")
    upper: int = field(name="upperBound")


class Requirement(Struct, frozen=True):
    """The resource requirements of a vertex."""

    parallelism: Bounds


class BoundsRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The requested parallelism of a vertex, which is the upper bound; -1 is the maximum parallelism."""

    lower: Parallelism = field(name="lowerBound", default=1)
    upper: Annotated[int, Meta(ge=-1, description="a positive integer or -1")] = field(
        name="upperBound", default=-1
    )


class RequirementRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The requested resources of a vertex."""

    parallelism: BoundsRequest


class RescaleRequestBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Rescale all vertices, or some by their uid, name or id. `triggerId` is chosen by the client."""

    parallelism: Parallelism | None = None
    vertices: dict[str, Parallelism] | None = None
    trigger_id: Id | None = field(name="triggerId", default=None)


class RescaleOutcome(Outcome, frozen=True, kw_only=True):
    """The outcome of a rescaling: the parallelism by vertex name."""

    parallelism: dict[str, Parallelism] | UnsetType = UNSET


def _requirements(services: Services, request: Request) -> Response:
    vertices = find_job(services, request).vertices()
    return Response({vertex.id: Requirement(Bounds(1, vertex.parallelism)) for vertex in vertices})


def _require(services: Services, request: Request) -> Response:
    """Rescale to the upper bounds. There is no slot pool to wait for: Spark runs tasks one after another if necessary."""
    job_id = request.parameters["jobid"]
    controller = services.jobs.running(job_id)
    vertices = {vertex.id: vertex for vertex in find_job(services, request).vertices()}
    wanted = {}
    for vertex_id, requirement in request.read(dict[str, RequirementRequest]).items():
        if vertex_id not in vertices:
            raise _no_vertex(vertex_id, list(vertices))
        wanted[vertex_id] = _upper_bound(vertex_id, requirement.parallelism, vertices[vertex_id])
    if not wanted:
        raise HttpError(HTTPStatus.BAD_REQUEST, "the request has no vertex")
    changed = {
        vertex_id: number
        for vertex_id, number in wanted.items()
        if number != vertices[vertex_id].parallelism
    }
    if changed:
        controller.rescale(changed)
    return Response(Empty())


def _upper_bound(vertex_id: str, bounds: BoundsRequest, vertex: VertexView) -> int:
    # In Flink, -1 means the maximum parallelism
    upper = vertex.max_parallelism if bounds.upper == -1 else bounds.upper
    if not bounds.lower <= upper <= vertex.max_parallelism:
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"invalid parallelism of vertex {vertex_id}: {bounds.lower} to {upper}",
            f"hint: lowerBound <= upperBound <= {vertex.max_parallelism}, its maximum parallelism",
        )
    return upper


def _rescale(services: Services, request: Request) -> Response:
    wanted = request.read(RescaleRequestBody)
    job_id = request.parameters["jobid"]
    controller = services.jobs.running(job_id)
    everywhere, some = wanted.parallelism, wanted.vertices or {}
    if everywhere is None and not some:
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            "the request has no parallelism",
            'hint: write {"parallelism": 4} or {"vertices": {"<uid, name or id>": 4}}',
        )
    known = names_of(find_job(services, request).vertices()) if some else []
    for name in some:
        if name not in known:
            raise _no_vertex(name, known)
    return services.operations.start(
        _RESCALE, job_id, lambda: _begin(controller, everywhere, some), wanted.trigger_id
    )


def _rescale_all(services: Services, request: Request) -> Response:
    """Rescale through Flink's old route: one parallelism for all vertices, in the query."""
    request.read(NoFields)
    job_id = request.parameters["jobid"]
    given = request.query.get("parallelism", "")
    if not given.isascii() or not given.isdigit() or not int(given[:9]) > 0:
        raise HttpError(HTTPStatus.BAD_REQUEST, "?parallelism must be a positive integer")
    controller = services.jobs.running(job_id)
    return services.operations.start(_RESCALE, job_id, lambda: controller.rescale(int(given[:9])))


def _begin(
    controller: Controller, everywhere: int | None, some: Mapping[str, int]
) -> Future[dict[str, int]]:
    if everywhere is None:
        return controller.rescale(some)
    return controller.rescale(everywhere, some) if some else controller.rescale(everywhere)


def _status(services: Services, request: Request) -> Response:
    return services.operations.status(
        _RESCALE,
        request.parameters["jobid"],
        request.parameters["triggerid"],
        lambda parallelism: RescaleOutcome(parallelism=dict(parallelism)),
    )


def names_of(vertices: Sequence[VertexView]) -> list[str]:
    """Return all names of vertices, those that people would use first."""
    operators = [operator for vertex in vertices for operator in vertex.operators]
    names = [
        *(operator.uid for operator in operators),
        *(operator.name for operator in operators),
        *(operator.id for operator in operators),
        *(vertex.name for vertex in vertices),
        *(vertex.id for vertex in vertices),
    ]
    return list(dict.fromkeys(name for name in names if name))


def _no_vertex(name: str, known: Sequence[str]) -> HttpError:
    return HttpError(
        HTTPStatus.BAD_REQUEST,
        f"unknown vertex '{name}'",
        f"hint: the vertices are {', '.join(known)}",
    )


ROUTES = (
    Route(
        "GET",
        "/jobs/:jobid/resource-requirements",
        _requirements,
        "the parallelism of every vertex, in the format of the next route",
        response=dict[str, Requirement],
    ),
    Route(
        "PUT",
        "/jobs/:jobid/resource-requirements",
        _require,
        'rescale to the upper bounds: `{"<vertex id>": {"parallelism": {"lowerBound", "upperBound"}}}`',
        body=Annotated[dict[str, RequirementRequest], Meta(min_length=1)],
        response=Empty,
    ),
    Route(
        "POST",
        "/jobs/:jobid/rescale",
        _rescale,
        'rescale: `{"parallelism": 4, "vertices": {"<uid, name or id>": 2}}`; one of them is enough',
        body=RescaleRequestBody,
        response=TriggerId,
    ),
    Route(
        "GET",
        "/jobs/:jobid/rescale/:triggerid",
        _status,
        "the status of a rescaling; `operation.parallelism` is the result",
        response=Standing[RescaleOutcome],
    ),
    Route(
        "PATCH",
        "/jobs/:jobid/rescaling",
        _rescale_all,
        "rescale all vertices: `?parallelism=4`",
        query={"parallelism": Parallelism},
        body=NoFields,
        response=TriggerId,
    ),
    Route(
        "GET",
        "/jobs/:jobid/rescaling/:triggerid",
        _status,
        "the status of a rescaling, as above",
        response=Standing[RescaleOutcome],
    ),
)
