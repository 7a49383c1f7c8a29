"""Builders of the sink for Elasticsearch and OpenSearch, as PyFlink has them."""

from __future__ import annotations

import enum
from typing import Self

from penstock.connectors.base.arguments import check_int, check_text
from penstock.connectors.base.delivery import DeliveryGuarantee
from penstock.connectors.base.rejections import (
    FAIL,
    OnRejected,
    check_on_rejected,
)
from penstock.connectors.base.request_batch import BatchLimits
from penstock.connectors.base.retrying import Backoff
from penstock.connectors.elasticsearch.actions import ElasticsearchEmitter
from penstock.connectors.elasticsearch.sink import BulkSettings, ElasticsearchSink
from penstock.errors import ArgumentError, ArgumentTypeError, InvalidProgramError


class FlushBackoffType(enum.Enum):
    """How long to wait before a failed bulk request is retried."""

    CONSTANT = 0
    EXPONENTIAL = 1
    NONE = 2


class ElasticsearchSinkBuilderBase:
    """Builds an ElasticsearchSink."""

    def __init__(self) -> None:
        self._emitter: ElasticsearchEmitter | None = None
        self._hosts: tuple[str, ...] = ()
        self._guarantee = DeliveryGuarantee.AT_LEAST_ONCE
        self._actions: int | None = 1000
        self._size: int | None = None
        self._interval: int | None = None
        self._backoff = Backoff(retries=8)
        self._username: str | None = None
        self._password: str | None = None
        self._path_prefix = ""
        self._connect_timeout_ms = 10_000
        self._socket_timeout_ms = 60_000
        self._on_rejected: OnRejected = FAIL

    def set_emitter(self, emitter: ElasticsearchEmitter) -> Self:
        """Set the emitter, which creates actions from records."""
        if not isinstance(emitter, ElasticsearchEmitter):
            raise ArgumentTypeError(
                "emitter is not an ElasticsearchEmitter",
                detail=f"got {emitter!r}",
                hint="use ElasticsearchEmitter.static_index, dynamic_index, or ElasticsearchEmitter(function)",
            )
        self._emitter = emitter
        return self

    def set_hosts(self, hosts: str | list[str]) -> Self:
        """Set the servers: `host:port`, or with http:// or https:// before it. If one is down, the next one is used."""
        given = [hosts] if isinstance(hosts, str) else list(hosts)
        if not given:
            raise ArgumentError("set_hosts needs at least one host")
        self._hosts = tuple(_address(check_text("a host", each)) for each in given)
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """Set whether a checkpoint waits for all earlier actions (AT_LEAST_ONCE, the default) or not (NONE)."""
        if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise ArgumentError(
                "exactly-once delivery is not supported by Elasticsearch",
                detail="bulk requests are not transactions",
                hint="use AT_LEAST_ONCE with a key field: repeated actions are idempotent, so the result is the same",
            )
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise ArgumentTypeError(
                "delivery_guarantee is not a DeliveryGuarantee",
                detail=f"got {delivery_guarantee!r}",
            )
        self._guarantee = delivery_guarantee
        return self

    def set_bulk_flush_max_actions(self, num_max_actions: int) -> Self:
        """Set the maximum number of actions per request (1000); -1 for no limit."""
        self._actions = _limit("num_max_actions", num_max_actions)
        return self

    def set_bulk_flush_max_size_mb(self, max_size_mb: int) -> Self:
        """Set the maximum size of a request, in MB; -1, the default, for no limit."""
        size = _limit("max_size_mb", max_size_mb)
        self._size = None if size is None else size << 20
        return self

    def set_bulk_flush_interval(self, interval_millis: int) -> Self:
        """Set how long an action is buffered at most; -1, the default, is until the next checkpoint."""
        self._interval = _limit("interval_millis", interval_millis)
        return self

    def set_bulk_flush_backoff_strategy(
        self, flush_backoff_type: FlushBackoffType, max_retries: int, delay_millis: int
    ) -> Self:
        """Set how often, and after what pause, failed actions are retried: EXPONENTIAL, 8 times, first after 100 ms.

        This applies to servers that are down or busy. Rejected actions are not retried.
        """
        check_int("max_retries", max_retries, 0)
        check_int("delay_millis", delay_millis, 0)
        if flush_backoff_type is FlushBackoffType.NONE:
            self._backoff = Backoff(retries=0)
        elif flush_backoff_type is FlushBackoffType.CONSTANT:
            self._backoff = Backoff(
                delay_millis, delay_millis, factor=1.0, retries=max_retries, jitter=0
            )
        elif flush_backoff_type is FlushBackoffType.EXPONENTIAL:
            self._backoff = Backoff(delay_millis, 60_000, retries=max_retries)
        else:
            raise ArgumentTypeError(
                "flush_backoff_type is not a FlushBackoffType",
                detail=f"got {flush_backoff_type!r}",
            )
        return self

    def set_connection_username(self, username: str) -> Self:
        """Set the user."""
        self._username = check_text("username", username)
        return self

    def set_connection_password(self, password: str) -> Self:
        """Set the password."""
        self._password = check_text("password", password)
        return self

    def set_connection_path_prefix(self, prefix: str) -> Self:
        """Set the path prefix of every request."""
        self._path_prefix = "/" + check_text("prefix", prefix).strip("/")
        return self

    def set_connection_request_timeout(self, timeout: int) -> Self:
        """Accepted as in Flink, without effect: the pool always has a free connection."""
        check_int("timeout", timeout, 0)
        return self

    def set_connection_timeout(self, timeout: int) -> Self:
        """Set the connection timeout, in ms."""
        self._connect_timeout_ms = check_int("timeout", timeout, 1)
        return self

    def set_socket_timeout(self, timeout: int) -> Self:
        """Set the response timeout, in ms."""
        self._socket_timeout_ms = check_int("timeout", timeout, 1)
        return self

    def set_on_rejected(self, on_rejected: object) -> Self:
        """Set how rejected records are handled: "fail", a function of a RejectedRecord, or another sink. Penstock only."""
        self._on_rejected = check_on_rejected(on_rejected)
        return self

    def build(self) -> ElasticsearchSink:
        """Build the sink."""
        if self._emitter is None:
            raise InvalidProgramError("the sink has no emitter", hint="call set_emitter")
        if not self._hosts:
            raise InvalidProgramError("the sink has no hosts", hint="call set_hosts")
        if self._password is not None and self._username is None:
            raise InvalidProgramError(
                "the sink has a password but no user", hint="call set_connection_username"
            )
        return ElasticsearchSink(
            self._emitter,
            BulkSettings(
                self._hosts,
                BatchLimits(self._actions, self._size, self._interval),
                self._backoff,
                self._guarantee is not DeliveryGuarantee.NONE,
                self._username,
                self._password,
                self._path_prefix,
                self._connect_timeout_ms,
                self._socket_timeout_ms,
                self._on_rejected,
            ),
        )


class Elasticsearch6SinkBuilder(ElasticsearchSinkBuilderBase):
    """Builds a sink for Elasticsearch 6, whose indexes have types: pass a `doc_type` to the emitter."""


class Elasticsearch7SinkBuilder(ElasticsearchSinkBuilderBase):
    """Builds a sink for Elasticsearch 7 and later, and for OpenSearch.

    >>> sink = (
    ...     Elasticsearch7SinkBuilder()
    ...     .set_hosts("localhost:9200")
    ...     .set_emitter(ElasticsearchEmitter.dynamic_index("index_col", "key_col"))
    ...     .build()
    ... )
    >>> sink.settings.hosts
    ('http://localhost:9200',)
    """


def _address(host: str) -> str:
    if "://" not in host:
        host = f"http://{host}"
    if not host.startswith(("http://", "https://")):
        raise ArgumentError("invalid host", detail=f"got {host!r}")
    return host.rstrip("/")


def _limit(name: str, value: int) -> int | None:
    check_int(name, value, -1)
    if value == 0:
        raise ArgumentError(f"{name} must not be 0", hint="use -1 for no limit")
    return None if value == -1 else value
