"""One OpenSearch server for all tests of this directory; each has an index of its own."""

from __future__ import annotations

import itertools
import json
import urllib.error
import urllib.request

import pytest

from tests.connectors.conftest import serving
from tools.servers.opensearch import OpenSearchServer

_indexes = itertools.count(1)


class Documents:
    """What is in an index, as an independent client sees it."""

    def __init__(self, server, index):
        self.server = server
        self.index = index

    def call(self, method, path, body=None):
        request = urllib.request.Request(
            f"{self.server.url}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def create(self, properties, **mapping):
        mappings = {"properties": properties, **mapping}
        settings = {"number_of_shards": 1, "number_of_replicas": 0}
        self.call("PUT", f"/{self.index}", {"mappings": mappings, "settings": settings})

    def all(self, index=None):
        """Return all documents by their ids."""
        try:
            self.call("POST", f"/{index or self.index}/_refresh")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return {}
            raise
        found = self.call("GET", f"/{index or self.index}/_search?size=10000")
        return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}


@pytest.fixture(scope="session")
def opensearch():
    with serving(OpenSearchServer) as server:
        yield server


@pytest.fixture
def documents(opensearch):
    if not opensearch.running:
        opensearch.start()
    return Documents(opensearch, f"test-{next(_indexes)}")
