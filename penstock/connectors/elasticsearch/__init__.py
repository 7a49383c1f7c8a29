"""Elasticsearch and OpenSearch: a sink over the _bulk API that both have."""
