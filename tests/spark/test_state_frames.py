"""State as Spark DataFrames, read by Spark's tasks; and DataFrames as what state is made of."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock import state
from penstock.common import Configuration, Row, Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)

PURCHASE = Types.ROW_NAMED(["item", "price"], [Types.STRING(), Types.DOUBLE()])


class Purchases(KeyedProcessFunction):
    def open(self, context):
        self.last = context.get_state(ValueStateDescriptor("last", PURCHASE))
        self.prices = context.get_list_state(ListStateDescriptor("prices"))
        self.counts = context.get_map_state(
            MapStateDescriptor("counts", Types.STRING(), Types.LONG())
        )

    def process_element(self, value, ctx):
        _, item, price = value
        self.last.update(Row(item=item, price=price))
        self.prices.add(price)
        self.counts.put(item, (self.counts.get(item) or 0) + 1)
        ctx.timer_service().register_event_time_timer(int(price) + 2**62)
        yield value[0], sorted(self.counts.items())


def purchases(env, records):
    stream = env.from_collection(records).key_by(lambda record: record[0])
    with stream.process(Purchases()).uid("purchases").execute_and_collect() as found:
        return sorted(found)


RECORDS = [("ann", "tea", 2.5), ("bob", "jam", 4.0), ("ann", "jam", 4.0)]


@pytest.fixture
def session(spark):
    return SparkSession(spark)


@pytest.fixture(params=["hashmap", "rocksdb", "savepoint"])
def snapshot(request, env, tmp_path):
    env.set_parallelism(2)
    backend = "hashmap" if request.param == "savepoint" else request.param
    env.configure(
        Configuration.from_dict(
            {
                "state.backend.type": backend,
                "execution.checkpointing.interval": "10 s",
                "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            }
        )
    )
    purchases(env, RECORDS)
    (job,) = Path(tmp_path, "checkpoints").iterdir()
    if request.param == "savepoint":
        return state.read(state.edit(job).write(tmp_path / "savepoints"))
    return state.read(job)


def test_state_is_a_dataframe_read_by_one_task_per_chain(snapshot, session):
    table = snapshot.state("purchases", "last")
    frame = table.to_spark(session)
    assert frame.rdd.getNumPartitions() == len(table.parts)
    assert (
        frame.schema.simpleString() == "struct<key:string,value:struct<item:string,price:double>>"
    )
    found = {row.key: row.value.asDict() for row in frame.collect()}
    assert found == {
        "ann": {"item": "jam", "price": 4.0},
        "bob": {"item": "jam", "price": 4.0},
    }


@pytest.mark.parametrize("snapshot", ["hashmap"], indirect=True)
def test_state_is_a_format_of_spark(snapshot, session, tmp_path):
    state.register(session)
    (job,) = Path(tmp_path, "checkpoints").iterdir()
    options = {"operator": "purchases", "state": "last"}
    frame = session.read.format("penstock").options(**options).load(str(job))
    assert (
        frame.schema.simpleString() == "struct<key:string,value:struct<item:string,price:double>>"
    )
    found = {row.key: row.value.item for row in frame.collect()}
    assert found == {"ann": "jam", "bob": "jam"}
    exploded = session.read.format("penstock").options(**options, explode="true")
    with pytest.raises(Exception, match="cannot be exploded"):
        exploded.load(str(job)).collect()
    with pytest.raises(Exception, match="option 'operator' is missing"):
        session.read.format("penstock").load(str(job))
    session.sql(
        f"CREATE TEMPORARY VIEW prices USING penstock OPTIONS (path '{job}', operator 'purchases', state 'prices', explode 'true')"
    )
    assert session.sql("SELECT sum(value) AS spent FROM prices").first().spent == 10.5
    session.catalog.dropTempView("prices")


def test_types_of_lists_and_maps(snapshot):
    prices = snapshot.state("purchases", "prices").to_spark()
    assert prices.schema.simpleString() == "struct<key:string,value:array<double>>"
    counts = snapshot.state("purchases", "counts").to_spark()
    assert counts.schema.simpleString() == "struct<key:string,value:map<string,bigint>>"
    exploded = snapshot.state("purchases", "counts", explode=True).to_spark()
    assert sorted(map(tuple, exploded.collect())) == [
        ("ann", "jam", 1),
        ("ann", "tea", 1),
        ("bob", "jam", 1),
    ]


def test_dataframes_answer_sql(snapshot, session):
    snapshot.state("purchases", "prices", explode=True).to_spark(session).createOrReplaceTempView(
        "p"
    )
    query = session.sql("SELECT key, sum(value) AS spent FROM p GROUP BY key ORDER BY key")
    assert [tuple(row) for row in query.collect()] == [("ann", 6.5), ("bob", 4.0)]


def test_offsets_and_empty_tables_are_dataframes(snapshot, session):
    assert snapshot.offsets().to_spark(session).count() == len(list(snapshot.offsets()))
    assert snapshot.timers("purchases").to_spark(session).columns[0] == "key"


def test_a_job_starts_from_a_spark_dataframe(env, session, tmp_path):
    frame = session.sql(
        "SELECT * FROM VALUES ('ann', 'tea', 10L), ('ann', 'jam', 1L), ('zoe', 'tea', 3L) AS t(user, item, n)"
    )
    last = session.sql("SELECT 'ann' AS user, named_struct('item', 'tea', 'price', 1.5D) AS bought")
    writer = state.new_savepoint()
    writer.put_map(
        "purchases",
        "counts",
        frame,
        key="user",
        map_key="item",
        value="n",
        type_info=Types.MAP(Types.STRING(), Types.LONG()),
    )
    writer.put_value("purchases", "last", last, key="user", value="bought", type_info=PURCHASE)
    path = writer.write(tmp_path)
    assert list(state.read(path).state("purchases", "last")) == [
        ("ann", Row(item="tea", price=1.5))
    ]
    env.set_parallelism(2)
    env.configure(Configuration.from_dict({"execution.state-recovery.path": path}))
    assert purchases(env, [("ann", "tea", 2.0), ("zoe", "jam", 2.0)]) == [
        ("ann", [("jam", 1), ("tea", 11)]),
        ("zoe", [("jam", 1), ("tea", 3)]),
    ]
