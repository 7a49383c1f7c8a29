"""`/penstock/jobs/<id>/graph`: the graph of a job in one response: vertices with their load, edges with their throughput."""

from __future__ import annotations

from typing import Any

from penstock.rest.messages import Request, Response
from penstock.rest.routing.routes import Route, Services

Json = dict[str, Any]


def _graph(services: Services, request: Request) -> Response:
    job = services.jobs.describe(request.parameters["jobid"])
    return Response(job_graph(job, services.now_ms()))


def job_graph(job: Json, now: int) -> Json:
    """Return the graph of a job, as the web page shows it, from the job's description."""
    edges = job.get("edges", [])
    targets = {edge["target"] for edge in edges}
    vertices = [_vertex(vertex, vertex["id"] not in targets) for vertex in job["vertices"]]
    end = job["end_ms"]
    return {
        "jid": job["id"],
        "name": job["name"],
        "state": job["status"],
        "now": now,
        "start-time": job["start_ms"],
        "end-time": -1 if end is None else end,
        "duration": (now if end is None else end) - job["start_ms"],
        "restarts": job["restarts"],
        "failures": _failures(job),
        "latency": job.get("latency"),
        "dropped": job.get("dropped", []),
        "checkpoint": _checkpoint(job["checkpoint_statistics"]),
        "vertices": vertices,
        "edges": _edges(edges, {vertex["id"]: vertex for vertex in vertices}),
    }


def _vertex(vertex: Json, source: bool) -> Json:
    figures = vertex.get("figures") or {}
    known = bool(figures.get("reported"))

    def figure(name: str) -> float | None:
        return figures[name] if known else None

    return {
        "id": vertex["id"],
        "name": vertex["name"],
        "source": source,
        "parallelism": vertex["parallelism"],
        "maxParallelism": vertex["max_parallelism"],
        "status": vertex["state"],
        "start-time": vertex["start_ms"] or -1,
        "end-time": vertex["end_ms"] or -1,
        "operators": vertex["operators"],
        "busy": figure("busy"),
        "backPressured": figure("back_pressured"),
        "idle": figure("idle"),
        "recordsInPerSecond": figure("records_in"),
        "recordsOutPerSecond": figure("records_out"),
        "bytesInPerSecond": figure("bytes_in"),
        "bytesOutPerSecond": figure("bytes_out"),
        "watermark": figure("watermark"),
    }


def _edges(edges: list[Json], vertices: dict[str, Json]) -> list[Json]:
    """Return the edges with their throughput, as far as it is known.

    Subtasks count input and output records, but not by edge. If the receiver has one input, its count is the edge's; otherwise the
    sender's count is, if it has one output; otherwise the throughput is unknown.
    """
    ins: dict[str, set[str]] = {}
    outs: dict[str, set[str]] = {}
    for edge in edges:
        ins.setdefault(edge["target"], set()).add(edge["source"])
        outs.setdefault(edge["source"], set()).add(edge["target"])
    return [
        {
            "source": edge["source"],
            "target": edge["target"],
            "strategy": edge["strategy"],
            "sideTag": edge.get("side_tag"),
            "watermark": vertices[edge["source"]]["watermark"],
            **_flow(edge, vertices, ins, outs),
        }
        for edge in edges
    ]


def _flow(
    edge: Json, vertices: dict[str, Json], ins: dict[str, set[str]], outs: dict[str, set[str]]
) -> Json:
    source, target = vertices[edge["source"]], vertices[edge["target"]]
    if len(ins[edge["target"]]) == 1:
        return {
            "recordsPerSecond": target["recordsInPerSecond"],
            "bytesPerSecond": target["bytesInPerSecond"],
        }
    if len(outs[edge["source"]]) == 1:
        return {
            "recordsPerSecond": source["recordsOutPerSecond"],
            "bytesPerSecond": source["bytesOutPerSecond"],
        }
    return {"recordsPerSecond": None, "bytesPerSecond": None}


def _checkpoint(statistics: Json) -> Json | None:
    latest = statistics["latest"].get("completed")
    if not latest:
        return None
    return {
        "id": latest["id"],
        "completed": latest["latest_ack_timestamp"],
        "duration": latest["end_to_end_duration"],
        "size": latest["state_size"],
    }


def _failures(job: Json) -> int:
    """Return the number of failures, for the counter on the tab."""
    remembered = (job.get("exceptions") or {}).get("entries")
    return len(remembered) if remembered else int(job["failure"] is not None)


ROUTES = (
    Route(
        "GET",
        "/penstock/jobs/:jobid/graph",
        _graph,
        "the job graph: vertices with their load, edges with their throughput",
    ),
)
