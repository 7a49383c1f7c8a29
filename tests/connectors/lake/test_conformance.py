"""Delta Lake and Iceberg, put through the kit. What they show is read by their own libraries."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from penstock.common import Types
from penstock.common.types import Row
from penstock.connectors.delta.sink import DeltaSink
from penstock.connectors.delta.source import DeltaSource
from penstock.connectors.iceberg.sink import IcebergSink
from penstock.connectors.iceberg.source import IcebergSource
from penstock.testing import SinkConformance, SinkSetup, SourceConformance, SourceSetup
from tests.builders.modes import SOAKS

COLUMNS = Types.ROW_NAMED(["number", "text"], [Types.LONG(), Types.STRING()])
ARROW = pa.schema([("number", pa.int64()), ("text", pa.string())])


def row(number):
    return Row(number=number, text=f"record {number}")


def pairs(table):
    return [Row(number=each["number"], text=each["text"]) for each in table.to_pylist()]


def as_table(records):
    return pa.table(
        {"number": [each.number for each in records], "text": [each.text for each in records]},
        schema=ARROW,
    )


class Rows:
    def record(self, number):
        return row(number)

    def big_record(self):
        return Row(number=-1, text="x" * 1_000_000)

    def identity(self, record):
        return record.number, record.text


class DeltaFiles(Rows, SourceSetup):
    def __init__(self, directory):
        self.uri = str(directory / "table")
        deltalake.DeltaTable.create(self.uri, ARROW)

    def add(self, records):
        for part in (records[0::2], records[1::2]):
            deltalake.write_deltalake(self.uri, as_table(part), mode="append")

    def create(self):
        return DeltaSource(self.uri)

    def wrong_arguments(self):
        return [
            lambda: DeltaSource(""),
            lambda: DeltaSource(f"{self.uri}-not-there"),
            lambda: DeltaSource(self.uri, columns=["price"]),
            lambda: DeltaSource(self.uri, start_at_latest=True),
            lambda: DeltaSource(self.uri, discovery_interval_ms=0),
        ]


class DeltaTail(DeltaFiles):
    bounded = False
    appends = True

    def create(self):
        return DeltaSource(self.uri, unbounded=True, discovery_interval_ms=20)


class DeltaOutput(Rows, SinkSetup):
    def __init__(self, directory):
        self.uri = str(directory / "table")

    def create(self):
        return DeltaSink(self.uri, COLUMNS)

    def shown(self):
        if not deltalake.DeltaTable.is_deltatable(self.uri):
            return []
        return pairs(deltalake.DeltaTable(self.uri).to_pyarrow_table())

    def unwritable(self):
        return Row(number="seven", text=7)

    def wrong_arguments(self):
        return [
            lambda: DeltaSink(""),
            lambda: DeltaSink(self.uri),
            lambda: DeltaSink(self.uri, COLUMNS, target_file_size=0),
            lambda: DeltaSink(self.uri, COLUMNS, partition_by=["day"]),
            lambda: DeltaSink(self.uri, Types.STRING()),
        ]


class IcebergFiles(Rows, SourceSetup):
    def __init__(self, directory):
        directory.mkdir(exist_ok=True)
        self.catalog = {
            "type": "sql",
            "uri": f"sqlite:///{directory}/catalog.db",
            "warehouse": f"file://{directory}/warehouse",
        }
        catalog = load_catalog("default", **self.catalog)
        catalog.create_namespace("lake")
        self.table = catalog.create_table("lake.numbers", ARROW)

    def add(self, records):
        for part in (records[0::2], records[1::2]):
            self.table.append(as_table(part))

    def create(self):
        return IcebergSource(self.catalog, "lake.numbers")

    def wrong_arguments(self):
        return [
            lambda: IcebergSource("catalog", "lake.numbers"),
            lambda: IcebergSource(self.catalog, "numbers"),
            lambda: IcebergSource(self.catalog, "lake.others"),
            lambda: IcebergSource(self.catalog, "lake.numbers", columns=["price"]),
            lambda: IcebergSource(self.catalog, "lake.numbers", snapshot_id=1),
        ]


class IcebergTail(IcebergFiles):
    bounded = False
    appends = True

    def create(self):
        return IcebergSource(self.catalog, "lake.numbers", unbounded=True, discovery_interval_ms=20)


class IcebergOutput(Rows, SinkSetup):
    def __init__(self, directory):
        directory.mkdir(exist_ok=True)
        self.catalog = {
            "type": "sql",
            "uri": f"sqlite:///{directory}/catalog.db",
            "warehouse": f"file://{directory}/warehouse",
        }

    def create(self):
        return IcebergSink(self.catalog, "lake.numbers", COLUMNS)

    def shown(self):
        catalog = load_catalog("default", **self.catalog)
        if not catalog.table_exists("lake.numbers"):
            return []
        return pairs(catalog.load_table("lake.numbers").scan().to_arrow())

    def unwritable(self):
        return Row(number="seven", text=7)

    def wrong_arguments(self):
        return [
            lambda: IcebergSink(None, "lake.numbers", COLUMNS),
            lambda: IcebergSink(self.catalog, "lake", COLUMNS),
            lambda: IcebergSink(self.catalog, "lake.numbers"),
            lambda: IcebergSink(self.catalog, "lake.numbers", COLUMNS, target_file_size=-1),
        ]


class TestDeltaSource(SourceConformance):
    @pytest.fixture(params=[DeltaTail, *([DeltaFiles] if SOAKS else [])])
    def connector(self, tmp_path, request):
        return request.param(tmp_path / "lake")


class TestDeltaSink(SinkConformance):
    @pytest.fixture
    def connector(self, tmp_path):
        return DeltaOutput(tmp_path / "lake")


class TestIcebergSource(SourceConformance):
    @pytest.fixture(params=[IcebergTail, *([IcebergFiles] if SOAKS else [])])
    def connector(self, tmp_path, request):
        return request.param(tmp_path / "lake")


class TestIcebergSink(SinkConformance):
    @pytest.fixture
    def connector(self, tmp_path):
        return IcebergOutput(tmp_path / "lake")
