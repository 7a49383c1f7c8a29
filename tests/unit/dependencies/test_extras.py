"""Libraries that only some programs need: none is loaded before it is used, and a missing one is named with the extra that has it."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from penstock.connectors.base.sink import WriterContext
from penstock.errors import PenstockError
from penstock.options.configuration import Configuration

ROOT = Path(__file__).parents[3]
FOR_DEVELOPERS = {"dev", "bench", "docs"}
# IPython itself loads what uses it.
FOR_ITS_USER = {"notebook"}
# Without them, the file systems of pyarrow do the same in another way: tests/unit/files and tests/connectors/storage have both.
REPLACED = {"hdfs", "s3"}
CONTEXT = WriterContext("job", "operator", 0, 1, "")


def call(path, *arguments):
    """Call a function that is loaded by its module and name."""
    module, _, name = path.partition(":")
    return lambda: getattr(importlib.import_module(f"penstock.{module}"), name)(*arguments)


def http_writer():
    from penstock.datastream.connectors.http import HttpSink

    HttpSink("http://localhost").create_writer(CONTEXT)


def bulk_writer():
    from penstock.datastream.connectors import elasticsearch

    emitter = elasticsearch.ElasticsearchEmitter.static_index("i")
    builder = elasticsearch.Elasticsearch7SinkBuilder().set_hosts("h:1").set_emitter(emitter)
    builder.build().create_writer(CONTEXT)


def redis_writer():
    from penstock.datastream.connectors.redis import RedisSink

    RedisSink("redis://localhost", str).create_writer(CONTEXT)


def redis_lookup():
    from penstock.datastream.connectors.redis import RedisLookup

    asyncio.run(RedisLookup("redis://localhost", str).open(None))


_ELECTIONS = "jobmanager.high_availability"
# extra -> the library, and what needs it
USES = {
    "avro": [("fastavro", call("formats.avro.schema:fastavro"))],
    "protobuf": [("google", call("formats.protobuf.types:protobuf"))],
    "kafka": [
        ("confluent_kafka", call("connectors.kafka.properties:confluent_kafka", "KafkaSource")),
        ("kafka", call("connectors.kafka.transactions:_protocol", "api")),
    ],
    "delta": [("deltalake", call("connectors.delta.tables:deltalake"))],
    "iceberg": [("pyiceberg", call("connectors.iceberg.tables:pyiceberg", "table"))],
    "jdbc": [("sqlalchemy", call("connectors.jdbc.generic:sqlalchemy"))],
    "postgres": [("psycopg", call("connectors.jdbc.postgres:psycopg"))],
    "redis": [("redis", redis_writer), ("redis", redis_lookup)],
    "http": [("urllib3", http_writer)],
    "elasticsearch": [("urllib3", bulk_writer)],
    "zookeeper": [("kazoo", call(f"{_ELECTIONS}.zookeeper_election:_connect", "h:1", 1))],
    "opentelemetry": [
        ("opentelemetry", call("rest.reporters.opentelemetry:_create_exporter", Configuration()))
    ],
    "kubernetes": [("kubernetes", call(f"{_ELECTIONS}.kubernetes_election:_connect", None))],
}
# Extras that only gather others.
GATHERED = {"schema-registry": {"avro", "protobuf"}}
LIBRARIES = sorted({library for uses in USES.values() for library, _ in uses})


def extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["optional-dependencies"]


def test_every_extra_is_in_this_test():
    assert set(extras()) - FOR_DEVELOPERS - FOR_ITS_USER - REPLACED == set(USES) | set(GATHERED)


@pytest.mark.parametrize("extra", sorted(GATHERED))
def test_an_extra_that_gathers_others_has_all_of_theirs(extra):
    every = extras()
    wanted = {each for part in GATHERED[extra] for each in every[part]}
    assert set(every[extra]) == wanted


@pytest.mark.parametrize(
    ("extra", "library", "use"),
    [(extra, library, use) for extra, uses in USES.items() for library, use in uses],
    ids=[
        f"{extra}-{library}-{at}"
        for extra, uses in USES.items()
        for at, (library, _) in enumerate(uses)
    ],
)
def test_a_library_that_is_missing_is_named_with_its_extra(extra, library, use, monkeypatch):
    for name in list(sys.modules):
        if name.partition(".")[0] == library:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)  # importing it raises
    with pytest.raises(PenstockError, match=f"^{library} is not installed") as caught:
        use()
    assert caught.value.hint == f"pip install 'penstock-stream[{extra}]'"


def test_all_of_penstock_is_imported_without_any_of_them():
    program = f"""
import importlib, pkgutil, sys
for library in {LIBRARIES!r}:
    sys.modules[library] = None
import penstock
for found in pkgutil.walk_packages(penstock.__path__, "penstock."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("library", "use"),
    [
        ("rocksdict", call("runtime.state.rocksdb.options:rocksdb_settings", Configuration())),
        ("pyspark", call("spark.gateway:spark_home")),
    ],
)
def test_a_dependency_that_is_missing_comes_with_penstock_again(library, use, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)  # it is not found
    with pytest.raises(PenstockError, match=f"{library}.* is not installed") as caught:
        use()
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("pip install penstock-stream")
