"""What is particular to tables: partitions, versions, changes, others who write at the same time."""

from __future__ import annotations

import datetime as dt
import threading

import deltalake
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import BooleanType, DateType, LongType, NestedField, StringType

from penstock.common import Types
from penstock.connectors.base.sink import CheckpointContext, CommitRequest, WriterContext
from penstock.connectors.base.source import ReadLimits
from penstock.connectors.delta.sink import DeltaSink
from penstock.connectors.delta.source import DeltaSource
from penstock.connectors.iceberg.sink import IcebergSink
from penstock.connectors.iceberg.source import IcebergSource
from penstock.errors import ArgumentError, RecordError, UnsupportedOperationError

ORDERS = Types.ROW_NAMED(
    ["id", "shop", "day", "paid"],
    [Types.LONG(), Types.STRING(), Types.SQL_DATE(), Types.BOOLEAN()],
)
ARROW = pa.schema(
    [("id", pa.int64()), ("shop", pa.string()), ("day", pa.date32()), ("paid", pa.bool_())]
)


def order(number):
    shop = None if number % 7 == 0 else f"shop {number % 3} / ä%20"
    return number, shop, dt.date(2026, 1, 1 + number % 2), number % 2 == 0


def context():
    return WriterContext("a" * 32, "b" * 32, 0, 1, "/nowhere")


def write(sink, records, checkpoint_id=1, attempt="one"):
    """Write an epoch and return its committables."""
    writer = sink.create_writer(context())
    writer.begin(CheckpointContext(checkpoint_id, attempt))
    writer.write(records, None, 0)
    files = writer.prepare_commit()
    writer.close()
    return files


def commit(sink, files, checkpoint_id=1):
    sink.create_committer().commit(CommitRequest(checkpoint_id, files))


def read(source):
    enumerator = source.create_enumerator(1)
    reader = source.create_reader()
    rows = [
        tuple(row)
        for split in enumerator.discover()
        for batch in reader.read(split, split.start, ReadLimits())
        for row in batch.records
    ]
    return sorted(rows, key=lambda row: row[0])


@pytest.fixture
def delta(tmp_path):
    return str(tmp_path / "orders")


@pytest.fixture
def catalog(tmp_path):
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    load_catalog("default", **properties).create_namespace("sales")
    return properties


def table_of(catalog, name="sales.orders"):
    return load_catalog("default", **catalog).load_table(name)


class TestDelta:
    def test_partitions_are_written_and_read_with_any_value(self, delta):
        sink = DeltaSink(delta, ORDERS, partition_by=["shop", "day"])
        commit(sink, write(sink, [order(n) for n in range(100)]))
        table = deltalake.DeltaTable(delta)
        assert table.metadata().partition_columns == ["shop", "day"]
        mine = table.to_pyarrow_table(filters=[("shop", "=", "shop 1 / ä%20")])
        assert sorted(mine["id"].to_pylist()) == [n for n in range(100) if n % 3 == 1 and n % 7]
        assert read(DeltaSource(delta, columns=["id"])) == [(n,) for n in range(100)]
        assert read(DeltaSource(delta)) == [order(n) for n in range(100)]

    def test_a_full_file_is_followed_by_another(self, delta):
        sink = DeltaSink(delta, ORDERS, target_file_size=1)
        files = write(sink, [order(n) for n in range(70_000)])
        assert len(files) >= 1
        writer = sink.create_writer(context())
        writer.begin(CheckpointContext(2, "two"))
        for start in (0, 70_000, 140_000):
            writer.write([order(start + n) for n in range(70_000)], None, 0)
        more = writer.prepare_commit()
        assert len(more) == 3
        assert len({file.path for file in more}) == 3
        commit(sink, [*files, *more])
        assert deltalake.DeltaTable(delta).count() == 280_000

    def test_filters_can_rely_on_the_bounds_of_files(self, delta):
        sink = DeltaSink(delta, ORDERS)
        for checkpoint_id in range(3):
            records = [order(n) for n in range(checkpoint_id * 10, checkpoint_id * 10 + 10)]
            commit(
                sink, write(sink, records, checkpoint_id, f"attempt {checkpoint_id}"), checkpoint_id
            )
        actions = pa.table(deltalake.DeltaTable(delta).get_add_actions(flatten=True))
        assert sorted(actions["min.id"].to_pylist()) == [0, 10, 20]
        assert sorted(actions["max.id"].to_pylist()) == [9, 19, 29]
        assert sum(actions["null_count.shop"].to_pylist()) == 5

    @pytest.mark.ci
    def test_an_epoch_that_is_run_again_after_a_fallback_is_committed(self, delta):
        sink = DeltaSink(delta, ORDERS)
        for checkpoint_id in (1, 2, 3):
            commit(
                sink,
                write(sink, [order(checkpoint_id)], checkpoint_id, f"first {checkpoint_id}"),
                checkpoint_id,
            )
        again = write(sink, [order(102)], 2, "second 2")
        commit(sink, again, 2)
        commit(sink, again, 2)
        assert [row[0] for row in read(DeltaSource(delta))] == [1, 2, 3, 102]

    def test_an_old_version_can_be_read(self, delta):
        sink = DeltaSink(delta, ORDERS)
        for checkpoint_id in (1, 2):
            commit(
                sink,
                write(sink, [order(checkpoint_id)], checkpoint_id, f"{checkpoint_id}"),
                checkpoint_id,
            )
        assert [row[0] for row in read(DeltaSource(delta, version=1))] == [1]

    def tail(self, delta, **options):
        source = DeltaSource(delta, unbounded=True, discovery_interval_ms=1, **options)
        enumerator = source.create_enumerator(1)

        def more():
            enumerator._next_look = 0
            reader = source.create_reader()
            return sorted(
                row[0]
                for split in enumerator.discover()
                for batch in reader.read(split, split.start, ReadLimits())
                for row in batch.records
            )

        return more

    @pytest.mark.ci
    def test_files_that_are_only_rewritten_are_not_read_again(self, delta):
        for n in range(3):
            deltalake.write_deltalake(
                delta, pa.Table.from_pylist([{"id": n}]), mode="append" if n else "error"
            )
        more = self.tail(delta)
        assert more() == [0, 1, 2]
        deltalake.DeltaTable(delta).optimize.compact()
        deltalake.write_deltalake(delta, pa.Table.from_pylist([{"id": 3}]), mode="append")
        assert more() == [3]
        assert more() == []

    def test_a_version_that_deletes_rows_fails_or_is_passed_over(self, delta):
        deltalake.write_deltalake(delta, pa.Table.from_pylist([{"id": 1}, {"id": 2}]))
        strict, lenient = self.tail(delta), self.tail(delta, ignore_changes=True)
        assert strict() == lenient() == [1, 2]
        deltalake.DeltaTable(delta).delete("id = 1")
        deltalake.write_deltalake(delta, pa.Table.from_pylist([{"id": 3}]), mode="append")
        with pytest.raises(RecordError, match=r"version 1 .* changes or deletes rows"):
            strict()
        assert lenient() == [3]

    def test_existing_rows_can_be_skipped(self, delta):
        deltalake.write_deltalake(delta, pa.Table.from_pylist([{"id": 1}]))
        more = self.tail(delta, start_at_latest=True)
        assert more() == []
        deltalake.write_deltalake(delta, pa.Table.from_pylist([{"id": 2}]), mode="append")
        assert more() == [2]

    def test_a_table_with_other_columns_or_partitions_is_refused_at_once(self, delta):
        deltalake.DeltaTable.create(delta, ARROW, partition_by=["day"])
        with pytest.raises(ArgumentError, match="other columns"):
            DeltaSink(delta, Types.ROW_NAMED(["id"], [Types.LONG()]))
        with pytest.raises(ArgumentError, match="other partition columns"):
            DeltaSink(delta, partition_by=["shop"])
        assert DeltaSink(delta).partition_by == ["day"]

    def test_a_writer_that_closes_in_an_epoch_leaves_no_files(self, delta, tmp_path):
        sink = DeltaSink(delta, ORDERS, target_file_size=1)
        writer = sink.create_writer(context())
        writer.begin(CheckpointContext(1, "one"))
        writer.write([order(n) for n in range(70_000)], None, 0)
        assert [*tmp_path.rglob("*.parquet")]
        writer.close()
        assert not [*tmp_path.rglob("*.parquet")]

    @pytest.mark.ci
    def test_several_jobs_append_at_the_same_time(self, delta):
        sinks = [DeltaSink(delta, ORDERS)] * 4
        prepared = [write(sink, [order(n)], 1, f"{n}") for n, sink in enumerate(sinks)]
        at_once(lambda n: commit(sinks[n], renamed(prepared[n], n)), 4)
        assert [row[0] for row in read(DeltaSource(delta))] == [0, 1, 2, 3]


def renamed(files, number):
    """Return the files as another job's."""
    return [
        type(file)(
            file.path, file.size, file.rows, f"job {number}", file.partition, file.statistics
        )
        for file in files
    ]


def at_once(act, count):
    failures = []

    def run(number):
        try:
            act(number)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


class TestIceberg:
    def create(self, catalog, *fields):
        spec = PartitionSpec(
            *(
                PartitionField(source, 1000 + place, transform, f"p{place}")
                for place, (source, transform) in enumerate(fields)
            )
        )
        schema = Schema(
            NestedField(1, "id", LongType(), required=False),
            NestedField(2, "shop", StringType(), required=False),
            NestedField(3, "day", DateType(), required=False),
            NestedField(4, "paid", BooleanType(), required=False),
        )
        return load_catalog("default", **catalog).create_table(
            "sales.orders", schema, partition_spec=spec
        )

    def test_partitions_are_written_by_their_transforms(self, catalog):
        self.create(catalog, (3, DayTransform()), (2, IdentityTransform()))
        sink = IcebergSink(catalog, "sales.orders")
        files = write(sink, [order(n) for n in range(100)])
        assert len(files) == 8
        commit(sink, files)
        table = table_of(catalog)
        assert table.inspect.partitions().num_rows == 8
        assert table.scan("shop = 'shop 1 / ä%20'").to_arrow().num_rows == len(
            [n for n in range(100) if n % 3 == 1 and n % 7]
        )
        assert read(IcebergSource(catalog, "sales.orders", columns=["id"])) == [
            (n,) for n in range(100)
        ]

    def test_a_partition_that_cannot_be_seen_from_a_file_is_refused_at_once(self, catalog):
        self.create(catalog, (1, BucketTransform(4)))
        with pytest.raises(UnsupportedOperationError, match="bucket"):
            IcebergSink(catalog, "sales.orders")

    @pytest.mark.ci
    def test_one_snapshot_is_made_of_a_checkpoint_and_says_whose_it_is(self, catalog):
        sink = IcebergSink(catalog, "sales.orders", ORDERS)
        files = write(sink, [order(1)], 1, "a") + write(sink, [order(2)], 1, "b")
        for _ in range(3):
            commit(sink, files)
        (snapshot,) = table_of(catalog).snapshots()
        assert snapshot.summary["penstock.checkpoint-id"] == "1"
        assert snapshot.summary["added-records"] == "2"

    @pytest.mark.ci
    def test_several_jobs_append_at_the_same_time(self, catalog):
        sink = IcebergSink(catalog, "sales.orders", ORDERS)
        prepared = [write(sink, [order(n)], 1, f"{n}") for n in range(3)]
        at_once(lambda n: commit(sink, renamed(prepared[n], n)), 3)
        assert [row[0] for row in read(IcebergSource(catalog, "sales.orders"))] == [0, 1, 2]

    def test_an_old_snapshot_and_a_part_of_the_rows_can_be_read(self, catalog):
        table = self.create(catalog)
        for n in range(3):
            table.append(pa.Table.from_pylist([{"id": n}, {"id": 10 + n}], schema=ARROW))
        second = table.snapshots()[1].snapshot_id
        source = IcebergSource(
            catalog, "sales.orders", columns=["id"], snapshot_id=second, row_filter="id >= 10"
        )
        assert read(source) == [(10,), (11,)]

    @pytest.mark.ci
    def test_rows_that_are_deleted_are_not_read(self, catalog):
        table = self.create(catalog)
        table.append(pa.Table.from_pylist([{"id": n} for n in range(4)], schema=ARROW))
        table.delete("id = 2")
        assert read(IcebergSource(catalog, "sales.orders", columns=["id"])) == [(0,), (1,), (3,)]

    def test_a_snapshot_that_deletes_fails_or_is_passed_over(self, catalog):
        table = self.create(catalog)
        table.append(pa.Table.from_pylist([{"id": 1}, {"id": 2}], schema=ARROW))
        sources = [
            IcebergSource(
                catalog, "sales.orders", columns=["id"], unbounded=True, ignore_changes=ignore
            )
            for ignore in (False, True)
        ]
        seen = sources[0].first_files().seen
        table.delete("id = 1")
        table.append(pa.Table.from_pylist([{"id": 3}], schema=ARROW))
        with pytest.raises(RecordError, match="changes or deletes rows"):
            sources[0].later_files(seen)
        found = sources[1].later_files(seen)
        rows = [
            row[0]
            for split in found.splits
            for batch in sources[1].create_reader().read(split, 0, ReadLimits())
            for row in batch.records
        ]
        assert rows == [3]
        assert sources[1].later_files(found.seen).splits == ()

    def test_a_table_with_other_columns_is_refused_at_once(self, catalog):
        self.create(catalog)
        with pytest.raises(ArgumentError, match="other columns"):
            IcebergSink(catalog, "sales.orders", Types.ROW_NAMED(["id"], [Types.LONG()]))
