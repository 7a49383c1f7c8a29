"""`/penstock/jobs/<id>/graph`: the graph of a job in one response: vertices with their load, edges with their throughput."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from penstock.jobmanager.checkpointing.checkpoint_statistics import CheckpointRecord
from penstock.jobmanager.job_view import EdgeView, JobView, OperatorView, VertexView
from penstock.rest.flink_json.jobs import DroppedRecordsOfOperator
from penstock.rest.flink_json.parts import Id, Span
from penstock.rest.messages import Request, Response
from penstock.rest.routing.request_targets import find_job
from penstock.rest.routing.routes import Route, Services


class GraphVertex(Struct, frozen=True, kw_only=True):
    """A vertex with its load. Shares are from 0 to 1, rates per second; null before its subtasks have reported."""

    id: str
    name: str
    #: Whether no edge leads to it.
    source: bool
    parallelism: int
    max_parallelism: int = field(name="maxParallelism")
    status: str
    start_time: int = field(name="start-time")
    end_time: int = field(name="end-time")
    operators: tuple[OperatorView, ...]
    #: Shares are those of the worst subtask: the highest busy and back-pressured share, the lowest idle one.
    busy: float | None = None
    back_pressured: float | None = field(name="backPressured", default=None)
    idle: float | None = None
    #: Rates are sums over the subtasks.
    records_in: float | None = field(name="recordsInPerSecond", default=None)
    records_out: float | None = field(name="recordsOutPerSecond", default=None)
    bytes_in: float | None = field(name="bytesInPerSecond", default=None)
    bytes_out: float | None = field(name="bytesOutPerSecond", default=None)
    #: The lowest of its subtasks; null until all of them have one.
    watermark: int | None = None

    @classmethod
    def of(cls, vertex: VertexView, *, source: bool) -> GraphVertex:
        """Return a vertex."""
        metrics = vertex.metrics
        known = {}
        if metrics.reported:
            known = {name: getattr(metrics, name) for name in _METRICS}
        return cls(
            id=vertex.id,
            name=vertex.name,
            source=source,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            status=vertex.state.name,
            start_time=vertex.start_ms or -1,
            end_time=vertex.end_ms or -1,
            operators=vertex.operators,
            **known,
        )


_METRICS = (
    "busy", "back_pressured", "idle", "records_in", "records_out", "bytes_in", "bytes_out", "watermark",
)  # fmt: skip


class GraphEdge(Struct, frozen=True, kw_only=True):
    """An edge with its throughput, null if it is unknown."""

    source: str
    target: str
    strategy: str
    side_tag: str | None = field(name="sideTag")
    watermark: int | None
    records: float | None = field(name="recordsPerSecond")
    bytes: float | None = field(name="bytesPerSecond")


class GraphCheckpoint(Struct, frozen=True):
    """The last completed checkpoint."""

    id: int
    completed: int
    duration: int
    size: int

    @classmethod
    def of(cls, record: CheckpointRecord) -> GraphCheckpoint:
        """Return a checkpoint."""
        totals = record.totals()
        return cls(record.number, totals.latest_ack_ms, totals.duration_ms, totals.size)


class JobGraphInfo(Struct, frozen=True, kw_only=True):
    """The graph of a job, as the web page draws it."""

    jid: Id
    name: str
    state: str
    now: int
    start_time: int = field(name="start-time")
    #: -1 until the job has ended.
    end_time: int = field(name="end-time")
    duration: int
    restarts: int
    #: For the counter on the tab.
    failures: int
    #: To the last vertices, over the last seconds; null without latency markers.
    latency: dict[str, float] | None
    dropped: list[DroppedRecordsOfOperator]
    #: The last completed one.
    checkpoint: GraphCheckpoint | None
    #: In topological order.
    vertices: list[GraphVertex]
    #: Both ends are ids in `vertices`.
    edges: list[GraphEdge]

    @classmethod
    def of(cls, job: JobView, now: int) -> JobGraphInfo:
        """Return the graph of a job."""
        edges, latency, completed = job.edges(), job.latency(), job.checkpoints().completed
        targets = {edge.target for edge in edges}
        vertices = [GraphVertex.of(each, source=each.id not in targets) for each in job.vertices()]
        span = Span.of(job.start_ms, job.end_ms, now)
        return cls(
            jid=job.id,
            name=job.name,
            state=job.status.name,
            now=now,
            start_time=span.start,
            end_time=span.end,
            duration=span.duration,
            restarts=job.restarts,
            failures=len(job.failures.entries) or int(job.failure is not None),
            latency=None if latency is None else dict(latency),
            dropped=[DroppedRecordsOfOperator.of(each) for each in job.dropped()],
            checkpoint=None if completed is None else GraphCheckpoint.of(completed),
            vertices=vertices,
            edges=list(_edges(edges, {vertex.id: vertex for vertex in vertices})),
        )


class _Flow(NamedTuple):
    records: float | None = None
    bytes: float | None = None


def _edges(edges: Sequence[EdgeView], vertices: Mapping[str, GraphVertex]) -> Iterator[GraphEdge]:
    """Yield the edges with their throughput, as far as it is known.

    Subtasks count input and output records, but not by edge. If the receiver has one input, its count is the edge's; otherwise the
    sender's count is, if it has one output; otherwise the throughput is unknown.
    """
    ins: dict[str, set[str]] = {}
    outs: dict[str, set[str]] = {}
    for edge in edges:
        ins.setdefault(edge.target, set()).add(edge.source)
        outs.setdefault(edge.source, set()).add(edge.target)
    for edge in edges:
        source, target = vertices[edge.source], vertices[edge.target]
        flow = _Flow()
        if len(ins[edge.target]) == 1:
            flow = _Flow(target.records_in, target.bytes_in)
        elif len(outs[edge.source]) == 1:
            flow = _Flow(source.records_out, source.bytes_out)
        yield GraphEdge(
            source=edge.source,
            target=edge.target,
            strategy=edge.strategy,
            side_tag=edge.side_tag,
            watermark=source.watermark,
            records=flow.records,
            bytes=flow.bytes,
        )


def _graph(services: Services, request: Request) -> Response:
    return Response(JobGraphInfo.of(find_job(services, request), services.now_ms()))


ROUTES = (
    Route(
        "GET",
        "/penstock/jobs/:jobid/graph",
        _graph,
        "the job graph: vertices with their load, edges with their throughput",
        response=JobGraphInfo,
    ),
)
