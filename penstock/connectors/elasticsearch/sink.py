"""A sink over the _bulk API, which Elasticsearch and OpenSearch share.

Actions are batched, and each writer has one bulk request in flight, so that two actions on one document keep their order. The
response is checked item by item: items that the server was too busy for are sent again, together with all later ones on the
same document; items that it rejects fail the job or go to the sink for rejected records.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.common.user_types import StateValue
from penstock.connectors.base.rejections import OnRejected, RejectedRecord, Rejections
from penstock.connectors.base.request_batch import BatchLimits, RequestBatch
from penstock.connectors.base.retrying import AttemptFailedError, Backoff, retry
from penstock.connectors.base.sink import (
    CheckpointContext,
    Committer,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.connectors.elasticsearch.actions import BulkAction, ElasticsearchEmitter
from penstock.connectors.http.client import RETRIED_STATUSES, HttpClient, HttpResponse
from penstock.errors import AccessRefusedError, ConnectionFailedError


@dataclass(frozen=True, slots=True)
class BulkSettings:
    """How to reach the servers, and how to send."""

    hosts: tuple[str, ...]  # with http:// or https://
    limits: BatchLimits
    backoff: Backoff
    flush_on_checkpoint: bool
    username: str | None
    password: str | None = field(repr=False)
    path_prefix: str
    connect_timeout_ms: int
    socket_timeout_ms: int
    on_rejected: OnRejected


class ElasticsearchSink(Sink):
    """Writes documents to Elasticsearch or OpenSearch; created by a builder.

    Delivery is at least once. Where actions have ids, as those of an emitter with a key field, repeating them changes nothing, so
    the result in the index is exactly once.
    """

    def __init__(self, emitter: ElasticsearchEmitter, settings: BulkSettings) -> None:
        self.emitter = emitter
        self.settings = settings

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Create the writer of one subtask."""
        return _BulkWriter(self, context, restored)

    def create_committer(self) -> Committer | None:
        """Create the committer of the sink for rejected records, if there is one."""
        other = self.settings.on_rejected
        return other.create_committer() if isinstance(other, Sink) else None

    def merge_writer_states(self, states: Sequence[Any]) -> StateValue:
        """Merge states of the sink for rejected records."""
        other = self.settings.on_rejected
        if isinstance(other, Sink):
            return other.merge_writer_states(states)
        return super().merge_writer_states(states)


@dataclass(frozen=True, slots=True)
class _Pending:
    action: BulkAction
    lines: bytes
    record: Any


class _BulkWriter(SinkWriter):
    def __init__(
        self, sink: ElasticsearchSink, context: WriterContext, restored: StateValue
    ) -> None:
        settings = self._settings = sink.settings
        self._emitter = sink.emitter
        self._client = HttpClient(
            extra="elasticsearch",
            needed_by="ElasticsearchSink",
            backoff=settings.backoff,
            connect_timeout_s=settings.connect_timeout_ms / 1000,
            read_timeout_s=settings.socket_timeout_ms / 1000,
        )
        self._host = context.subtask  # index of the current host; on failure the next one is used
        self._batch = RequestBatch(settings.limits)
        self._in_checkpoint_interval = False
        self._rejections = Rejections(settings.on_rejected, context, restored)
        self._headers = _headers(settings)
        self._actions = self._bulks = None
        if context.metrics is not None:
            self._actions = context.metrics.counter("numActions")
            self._bulks = context.metrics.counter("numBulks")
            context.metrics.gauge("numRetries", lambda: self._client.retries)

    def begin(self, checkpoint: CheckpointContext) -> None:
        self._in_checkpoint_interval = True
        self._rejections.begin(checkpoint)

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        add, actions = self._batch.add, self._emitter.actions
        for value in values:
            for action in actions(value):
                lines = action.lines()
                if add(_Pending(action, lines, value), len(lines)):
                    self._flush()

    def _flush(self) -> None:
        pending = self._batch.take()
        if self._actions is not None:
            self._actions.inc(len(pending))
        if not pending:
            return

        def attempt() -> None:
            nonlocal pending
            pending, trouble = self._send(pending)
            if pending:
                raise AttemptFailedError(trouble)

        try:
            retry(
                attempt,
                self._settings.backoff.pauses(),
                when=lambda error: isinstance(error, AttemptFailedError),
                sleep=self._client.wait,
            )
        except AttemptFailedError as error:
            raise ConnectionFailedError(
                f"{len(pending)} bulk actions failed after all retries",
                detail=f"hosts {', '.join(self._settings.hosts)}; last error: {error}",
                hint="check that the cluster is up and can handle the load; set_bulk_flush_backoff_strategy sets the retries",
            ) from None

    def _send(self, pending: list[_Pending]) -> tuple[list[_Pending], str]:
        """Send a bulk request; return the actions to send again, and why."""
        settings = self._settings
        host = settings.hosts[self._host % len(settings.hosts)]
        url = f"{host}{settings.path_prefix}/_bulk"
        body = b"".join([each.lines for each in pending])
        answer, trouble = self._client.send_once("POST", url, body, self._headers)
        if self._bulks is not None:
            self._bulks.inc()
        if answer is None:
            self._host += 1
            return pending, f"{url}: {trouble}"
        if answer.status in RETRIED_STATUSES:
            self._host += 1
            return pending, trouble
        if answer.status == 413 and len(pending) > 1:
            return self._send_halves(pending)
        if not answer.accepted:
            self._reject(pending, url, answer)
            return [], ""
        return self._look_at_items(pending, url, answer)

    def _send_halves(self, pending: list[_Pending]) -> tuple[list[_Pending], str]:
        """Send a request that was too large for the server in two halves."""
        half = len(pending) // 2
        again, trouble = self._send(pending[:half])
        if again:  # later actions must not overtake it
            return [*again, *pending[half:]], trouble
        return self._send(pending[half:])

    def _look_at_items(
        self, pending: list[_Pending], url: str, answer: HttpResponse
    ) -> tuple[list[_Pending], str]:
        found = json.loads(answer.body)
        if not found.get("errors"):
            return [], ""
        items = [next(iter(item.values())) for item in found["items"]]
        if len(items) != len(pending):
            raise ConnectionFailedError(
                f"{url} answered with {len(items)} items to {len(pending)} actions",
                hint="check that it is Elasticsearch or OpenSearch, and check any proxy in between",
            )
        busy, refused = split_responses(items, [each.action for each in pending])
        if refused:
            self._rejections.take(
                [
                    RejectedRecord(
                        pending[at].record,
                        f"{url}, index {pending[at].action.index},",
                        items[at]["status"],
                        _reason(items[at]),
                    )
                    for at in refused
                ]
            )
        trouble = _reason(items[busy[0]]) if busy else ""
        return [pending[at] for at in busy], trouble

    def _reject(self, pending: list[_Pending], url: str, answer: HttpResponse) -> None:
        reason = answer.text()
        if answer.status in {401, 403, 404, 405}:  # not caused by the records
            raise AccessRefusedError(
                f"{url} rejected the job's bulk requests",
                detail=f"{answer.status}: {reason}",
                hint="check the address, the path prefix, the user and its privileges",
            )
        self._rejections.take(
            [RejectedRecord(each.record, url, answer.status, reason) for each in pending]
        )

    def next_wakeup(self) -> int | None:
        both = (self._batch.due_ms, self._rejections.next_wakeup())
        return min((each for each in both if each is not None), default=None)

    def wake_up(self) -> None:
        self._flush()
        self._rejections.wake_up()

    def prepare_commit(self) -> list[Any]:
        if self._settings.flush_on_checkpoint:
            self._flush()
        self._in_checkpoint_interval = False
        return self._rejections.prepare_commit()

    def snapshot(self) -> StateValue:
        return self._rejections.snapshot()

    def close(self) -> None:
        # Without a guarantee, checkpoints do not flush: unless the job has failed, this is the last chance to send.
        if len(self._batch) and not self._in_checkpoint_interval:
            self._flush()
        self._client.close()
        self._rejections.close()


def split_responses(
    items: Sequence[dict[str, Any]], actions: Sequence[BulkAction]
) -> tuple[list[int], list[int]]:
    """Return the indexes of the items to send again, and of those that were rejected.

    With an item that the server was too busy for, all later ones on the same document are sent again, even if they succeeded:
    else the earlier one would overwrite them.

    >>> acts = [BulkAction("index", "i", id, {}) for id in ["a", "b", "a", None]]
    >>> split_responses([{"status": 429}, {"status": 400}, {"status": 200}, {"status": 201}], acts)
    ([0, 2], [1])
    """
    busy: list[int] = []
    refused: list[int] = []
    again: set[tuple[str, str]] = set()
    for at, (item, action) in enumerate(zip(items, actions, strict=True)):
        status = item["status"]
        if status in RETRIED_STATUSES or action.target in again:
            busy.append(at)
            if action.target is not None:
                again.add(action.target)
        elif status >= 300 and not _is_done_already(status, action):
            refused.append(at)
    return busy, refused


def _is_done_already(status: int, action: BulkAction) -> bool:
    """Whether an action failed only because it was done before."""
    return (action.operation, status) in {("create", 409), ("delete", 404)}


def _reason(item: dict[str, Any]) -> str:
    error = item.get("error") or {}
    if isinstance(error, str):
        return error
    cause = error.get("caused_by", {}).get("reason")
    text = f"{error.get('type')}: {error.get('reason')}"
    return f"{text} ({cause})" if cause else text


def _headers(settings: BulkSettings) -> dict[str, str]:
    headers = {"Content-Type": "application/x-ndjson", "Accept": "application/json"}
    if settings.username is not None:
        secret = f"{settings.username}:{settings.password or ''}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(secret).decode()}"
    return headers
