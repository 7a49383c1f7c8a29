"""The names that PyFlink programs import, the examples in docstrings, and what tasks must not load."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys

import pytest

from penstock.connectors.base.source import ReadLimits

NAMES = {
    "connectors": ["DeliveryGuarantee", "Sink", "Source"],
    "connectors.base": ["DeliveryGuarantee", "Sink", "Source", "StreamTransformer", "SupportsPreprocessing"],
    "connectors.elasticsearch": [
        "Elasticsearch6SinkBuilder", "Elasticsearch7SinkBuilder", "ElasticsearchEmitter", "ElasticsearchSink", "FlushBackoffType",
    ],
    "connectors.file_system": [
        "BucketAssigner", "BulkFormat", "FileCompactStrategy", "FileCompactor", "FileEnumeratorProvider", "FileSink",
        "FileSource", "FileSourceBuilder", "FileSplitAssignerProvider", "OutputFileConfig", "RollingPolicy",
        "StreamFormat", "StreamingFileSink",
    ],
    "connectors.number_seq": ["NumberSequenceSource"],
    "formats.csv": [
        "CsvBulkWriters", "CsvReaderFormat", "CsvRowDeserializationSchema", "CsvRowSerializationSchema", "CsvSchema",
        "CsvSchemaBuilder",
    ],
    "formats.json": ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"],
    "formats.orc": ["OrcBulkWriters"],
    "formats.parquet": ["ParquetBulkWriters", "ParquetColumnarRowInputFormat"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in NAMES.items() for name in names]
)
def test_pyflinks_names_are_where_pyflink_has_them(module, name):
    assert hasattr(importlib.import_module(f"penstock.datastream.{module}"), name)


@pytest.mark.parametrize(
    "module",
    [
        "base.arguments",
        "base.request_batch",
        "datagen.source",
        "elasticsearch.actions",
        "elasticsearch.sink",
        "filesystem.buckets",
        "filesystem.sink",
        "filesystem.source",
        "http.client",
        "http.sink",
        "number_sequence.source",
        "redis.client",
        "redis.commands",
        "redis.sink",
        "base.rejections",
        "base.retrying",
        "socket.source",
        "base.staged_sinks",
    ],
)
def test_the_examples_of_docstrings_work(module):
    results = doctest.testmod(importlib.import_module(f"penstock.connectors.{module}"))
    assert results.attempted > 0
    assert results.failed == 0


def test_the_example_source_and_sink_work():
    base = importlib.import_module("penstock.datastream.connectors.base")
    parser = doctest.DocTestParser()
    names = {**vars(base), "ledger": {}}
    example = parser.get_doctest(base.__doc__, names, "base", None, 0)
    assert doctest.DocTestRunner().run(example, clear_globs=False).failed == 0
    names = example.globs
    source = names["Countdown"]()
    (split,) = source.create_enumerator(1).discover()
    batches = source.create_reader().read(split, split.start, ReadLimits())
    assert [batch.records for batch in batches] == [[3], [2], [1]]
    sink = names["Ledger"]()
    writer = sink.create_writer(base.WriterContext("job", "op", 0, 1, ""))
    for checkpoint_id, attempt, values in ((1, "a", [1, 2]), (2, "b", [3])):
        writer.begin(base.CheckpointContext(checkpoint_id, attempt))
        writer.write(values, None, 0)
        request = base.CommitRequest(checkpoint_id, writer.prepare_commit())
        for _ in range(2):
            sink.create_committer().commit(request)
    assert names["ledger"] == {"job-a": [1, 2], "job-b": [3]}


def test_a_task_that_unpickles_connectors_loads_nothing_heavy():
    modules = ["connectors.base.collection", "connectors.number_sequence.source", "connectors.base.staged_sinks", "connectors.datagen.source",
               "connectors.filesystem.sink", "connectors.filesystem.source", "connectors.function.sink", "formats.columnar.files",
               "formats.csv.files", "formats.json.rows"]  # fmt: skip
    imports = ", ".join(f"penstock.{module}" for module in modules)
    heavy = "{'pyarrow', 'pyspark', 'pandas', 'numpy', 'cloudpickle', 'penstock.datastream', 'penstock.graph'}"
    code = f"import sys, {imports}; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert found.strip() == "[]"
