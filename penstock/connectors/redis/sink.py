"""A sink that turns records into Redis commands.

At least once, commands are sent in pipelines, and a checkpoint waits for all responses. Exactly once, they are kept until the
checkpoint is durable; then the driver runs them on the server, together with a record that they were run: see `committer`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from penstock.common.user_types import StateValue
from penstock.connectors.base.arguments import check_callable, check_int, check_text
from penstock.connectors.base.delivery import DeliveryGuarantee
from penstock.connectors.base.rejections import (
    FAIL,
    OnRejected,
    RejectedRecord,
    Rejections,
    check_on_rejected,
)
from penstock.connectors.base.request_batch import BatchLimits, RequestBatch
from penstock.connectors.base.retrying import Backoff
from penstock.connectors.base.sink import (
    CheckpointContext,
    Committer,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.connectors.base.staged_sinks import StagingBuffer
from penstock.connectors.redis.client import Connect, RedisCalls, check_connect
from penstock.connectors.redis.commands import commands_of, show, size_of
from penstock.connectors.redis.committer import RedisCommitter, StagedCommands
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError

_MOST_PARTS = 7000  # Lua passes at most 8000 arguments


class RedisSink(Sink):
    """Runs the commands that a mapper returns for each record.

    `mapper` returns a tuple such as `("SET", key, value, "EX", 60)`, a list of such tuples, or None. `url` is a URL of
    redis-py (`redis://`, `rediss://`, `unix://`), or a function that creates a client, for Sentinel for instance; with
    `cluster=True` it is that of any node of a cluster.

    AT_LEAST_ONCE sends commands in batches: `max_batch` of them, at the latest `linger_ms` after the first one. After a failure,
    those since the last checkpoint are run again, which changes nothing for SET, HSET, SADD, ZADD, EXPIRE or DEL. EXACTLY_ONCE is
    for commands that are not idempotent, such as INCRBY, LPUSH, XADD or PUBLISH: commands wait for their checkpoint, and are run
    once, in the order of each subtask. It needs one server (or one master): a script in a cluster cannot span nodes.

    Calls to a server that is down are retried for `retry_timeout_ms`. A command that it rejects fails the job, or its record is
    passed to `on_rejected`: a function of a RejectedRecord, or (at least once) another sink.

    >>> RedisSink("redis://localhost", lambda user: ("HSET", f"user:{user['id']}", "name", user["name"])).guarantee
    <DeliveryGuarantee.AT_LEAST_ONCE: 1>
    """

    def __init__(
        self,
        url: Connect,
        mapper: Callable[[Any], Any],
        *,
        delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE,
        max_batch: int = 1000,
        linger_ms: int = 100,
        retry_timeout_ms: int = 120_000,
        cluster: bool = False,
        on_rejected: OnRejected = FAIL,
        marker_prefix: str = "penstock:commits",
    ) -> None:
        self.connect = check_connect(url)
        self.mapper = check_callable("mapper", mapper, "the record")
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise ArgumentTypeError(
                "delivery_guarantee is not a DeliveryGuarantee",
                detail=f"got {delivery_guarantee!r}",
            )
        self.guarantee = delivery_guarantee
        self.limits = BatchLimits(
            check_int("max_batch", max_batch, 1), 4 << 20, check_int("linger_ms", linger_ms, 0)
        )
        self.retry_timeout_ms = check_int("retry_timeout_ms", retry_timeout_ms, 0)
        self.cluster = bool(cluster)
        self.on_rejected = check_on_rejected(on_rejected)
        self.marker_prefix = check_text("marker_prefix", marker_prefix)
        if self.exactly_once and self.cluster:
            raise ArgumentError(
                "exactly-once delivery is not supported with a Redis cluster",
                detail="the keys of a command and the record that it was run may be on different nodes",
                hint="use AT_LEAST_ONCE with idempotent commands, or a single server",
            )
        if self.exactly_once and isinstance(self.on_rejected, Sink):
            raise ArgumentError(
                "on_rejected cannot be a sink with exactly-once delivery",
                detail="commands are run by the driver, after the checkpoint",
                hint="set on_rejected to a function",
            )

    @property
    def exactly_once(self) -> bool:
        """Whether commands wait for their checkpoint."""
        return self.guarantee is DeliveryGuarantee.EXACTLY_ONCE

    def calls(self) -> RedisCalls:
        """Create a connection."""
        backoff = Backoff(50, 2000, within_ms=self.retry_timeout_ms)
        return RedisCalls(self.connect, cluster=self.cluster, backoff=backoff)

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Create the writer of one subtask."""
        if self.exactly_once:
            return _StagingWriter(self, context)
        return _PipelineWriter(self, context, restored)

    def create_committer(self) -> Committer | None:
        """Create the committer of commands, or that of the sink for rejected records."""
        if self.exactly_once:
            assert not isinstance(self.on_rejected, Sink)
            return RedisCommitter(self.calls(), self.marker_prefix, self.on_rejected)
        if isinstance(self.on_rejected, Sink):
            return self.on_rejected.create_committer()
        return None

    def merge_writer_states(self, states: Any) -> StateValue:
        """Merge states of the sink for rejected records."""
        if isinstance(self.on_rejected, Sink):
            return self.on_rejected.merge_writer_states(states)
        return super().merge_writer_states(states)


class _PipelineWriter(SinkWriter):
    """Sends commands in pipelines. These are not transactions: other clients may see some commands before the others."""

    def __init__(self, sink: RedisSink, context: WriterContext, restored: StateValue) -> None:
        self._mapper = sink.mapper
        self._calls = sink.calls()
        self._batch = RequestBatch(sink.limits)
        self._flushes = sink.guarantee is not DeliveryGuarantee.NONE
        self._in_checkpoint_interval = False
        self._rejections = Rejections(sink.on_rejected, context, restored)
        if context.metrics is not None:
            context.metrics.gauge("numRetries", lambda: self._calls.retries)

    def begin(self, checkpoint: CheckpointContext) -> None:
        self._in_checkpoint_interval = True
        self._rejections.begin(checkpoint)

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        mapper, add = self._mapper, self._batch.add
        for value in values:
            for command in commands_of(mapper(value), value):
                if add((command, value), size_of(command)):
                    self._flush()

    def _flush(self) -> None:
        items = self._batch.take()
        if not items:
            return
        answers = self._calls.pipeline([command for command, _ in items])
        refused = [
            RejectedRecord(
                value, f"{self._calls.name}, command {show(command)},", None, str(answer)
            )
            for (command, value), answer in zip(items, answers, strict=True)
            if isinstance(answer, Exception)
        ]
        if refused:
            self._rejections.take(refused)

    def next_wakeup(self) -> int | None:
        both = (self._batch.due_ms, self._rejections.next_wakeup())
        return min((each for each in both if each is not None), default=None)

    def wake_up(self) -> None:
        self._flush()
        self._rejections.wake_up()

    def prepare_commit(self) -> list[Any]:
        if self._flushes:
            self._flush()
        self._in_checkpoint_interval = False
        return self._rejections.prepare_commit()

    def snapshot(self) -> StateValue:
        return self._rejections.snapshot()

    def close(self) -> None:
        if (
            len(self._batch) and not self._in_checkpoint_interval
        ):  # without a guarantee: this is the last chance to send
            self._flush()
        self._calls.close()
        self._rejections.close()


class _StagingWriter(SinkWriter):
    """Keeps the commands of a checkpoint: a few in the committable, many in a file."""

    def __init__(self, sink: RedisSink, context: WriterContext) -> None:
        self._mapper = sink.mapper
        self._context = context
        self._buffer = StagingBuffer(context)
        self._checkpoint = CheckpointContext(0, "")

    def begin(self, checkpoint: CheckpointContext) -> None:
        self._checkpoint = checkpoint
        self._buffer.begin(checkpoint)

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        mapper = self._mapper
        commands = [each for value in values for each in commands_of(mapper(value), value)]
        for command in commands:
            if len(command) > _MOST_PARTS:
                raise RecordError(
                    f"a command {command[0]} has too many arguments for exactly-once delivery",
                    detail=f"it has {len(command)}, a script can pass at most {_MOST_PARTS}",
                    hint="split it into several commands in the mapper",
                )
        if commands:
            self._buffer.write(pickle.dumps(commands, 5))

    def prepare_commit(self) -> list[Any]:
        context = self._context
        return [
            StagedCommands(context.operator_id, self._checkpoint.attempt, output)
            for output in self._buffer.finish()
        ]

    def close(self) -> None:
        self._buffer.close()
