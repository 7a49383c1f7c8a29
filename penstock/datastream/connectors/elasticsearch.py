"""A sink for Elasticsearch and OpenSearch."""

from __future__ import annotations

from penstock.connectors.base.rejections import RejectedRecord
from penstock.connectors.elasticsearch.actions import BulkAction, ElasticsearchEmitter
from penstock.connectors.elasticsearch.builders import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    FlushBackoffType,
)
from penstock.connectors.elasticsearch.sink import ElasticsearchSink

__all__ = [
    "BulkAction",
    "Elasticsearch6SinkBuilder",
    "Elasticsearch7SinkBuilder",
    "ElasticsearchEmitter",
    "ElasticsearchSink",
    "FlushBackoffType",
    "RejectedRecord",
]
