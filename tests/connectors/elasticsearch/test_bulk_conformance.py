"""The bulk sink goes through the kit for connectors, with a real server."""

from __future__ import annotations

import pytest

from penstock.datastream.connectors.elasticsearch import (
    BulkAction,
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
)
from penstock.testing.conformance import Guarantee, SinkConformance, SinkSetup
from tests.builders.modes import SOAKS


class DocumentsSetup(SinkSetup):
    """Each record is a document whose id is the record's."""

    guarantee = Guarantee.IDEMPOTENT

    def __init__(self, documents):
        self.documents = documents
        self.url = documents.server.url
        self.index = documents.index

    def create(self):
        return (
            Elasticsearch7SinkBuilder()
            .set_hosts(self.url)
            .set_emitter(ElasticsearchEmitter(Document(self.index)))
            .set_bulk_flush_interval(50)
            .build()
        )

    def shown(self):
        return sorted(each["text"] for each in self.documents.all().values())

    def big_record(self):
        return "x" * 30_000 + "big"  # terms of an index are not longer; the text is not one of them

    def wrong_arguments(self):
        builder = Elasticsearch7SinkBuilder()
        return (
            lambda: builder.set_hosts([]),
            lambda: builder.set_bulk_flush_max_actions(0),
            lambda: builder.set_emitter(None),
        )


class Document:
    def __init__(self, index):
        self.index = index

    def __call__(self, record):
        return BulkAction("index", self.index, str(record)[-100:], {"text": record})


class TestBulk(SinkConformance):
    # There is not a committer, so a killed driver has nothing to commit.
    rules = [rule for rule in SinkConformance.rules if SOAKS or "killed" not in str(rule)]

    @pytest.fixture
    def connector(self, documents):
        documents.create({"text": {"type": "keyword", "index": False, "doc_values": False}})
        return DocumentsSetup(documents)
