"""Captured tables, conversion of their values, and changes of their definitions."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from decimal import Decimal

import psycopg
import pytest

from penstock.common import Row, WatermarkStrategy
from penstock.connectors.postgres_cdc import (
    DebeziumDeserializationSchema,
    RowDeserializationSchema,
    StartupOptions,
    slots,
)
from penstock.connectors.postgres_cdc.log_receiver import LogReceiver
from penstock.connectors.postgres_cdc.positions import StreamPosition, parse_lsn
from penstock.connectors.postgres_cdc.slots import create_slot
from penstock.datastream import OutputTag
from penstock.errors import PenstockError
from penstock.testing import MiniCluster
from tests.builders.changelog import (
    ChangelogSink,
    cdc_environment,
    cdc_source,
    committed,
    start,
    until,
)
from tests.builders.modes import MODES, PIPELINED
from tests.builders.scripted import collect
from tests.connectors.postgres_cdc.tables import confirmed_lsn, make_table, reader_of_slot

VALUES = {
    "i2 int2": ("7", 7),
    "i8 int8": ("-9000000000", -9_000_000_000),
    "num numeric(12, 3)": ("12.5", Decimal("12.500")),
    "f8 float8": ("0.1", 0.1),
    "b bool": ("true", True),
    "t text": ("'ä \"quoted\", \\ {}'", 'ä "quoted", \\ {}'),
    "c char(5)": ("'ab'", "ab   "),
    "bin bytea": (r"'\x00ff10'", b"\x00\xff\x10"),
    "d date": ("'2024-02-29'", dt.date(2024, 2, 29)),
    "tm time": ("'04:05:06.5'", dt.time(4, 5, 6, 500_000)),
    "tz timetz": (
        "'04:05:06+05:30'",
        dt.time(4, 5, 6, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30))),
    ),
    "ts timestamp": ("'2001-02-03 04:05:06.789'", dt.datetime(2001, 2, 3, 4, 5, 6, 789_000)),
    "tstz timestamptz": (
        "'2001-02-03 04:05:06+02'",
        dt.datetime(2001, 2, 3, 2, 5, 6, tzinfo=dt.UTC),
    ),
    "iv interval": (
        "'1 year 2 mons -3 days 04:05:06.7'",
        dt.timedelta(days=365 + 60 - 3, hours=4, minutes=5, seconds=6, milliseconds=700),
    ),
    "u uuid": (
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ),
    "j jsonb": ("'{\"a\": [1, null]}'", '{"a": [1, null]}'),
    "ia int[]": ("'{{1,2},{3,NULL}}'", [[1, 2], [3, None]]),
    "ta text[]": ("ARRAY['a,b', NULL, 'NULL', '']", ["a,b", None, "NULL", ""]),
    "da timestamp[]": ("'{2001-02-03 04:05:06}'", [dt.datetime(2001, 2, 3, 4, 5, 6)]),
    "m mood": ("'happy'", "happy"),
    "ma mood[]": ("'{sad,happy}'", ["sad", "happy"]),
    "dom positive": ("5", 5),
    "r int4range": ("'[1,5)'", "[1,5)"),
    "nothing int": ("NULL", None),
}


@pytest.mark.ci
def test_values_of_all_types_are_the_same_in_the_snapshot_and_in_the_log(database, sql, tmp_path):
    sql("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    sql("CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    sql(f"CREATE TABLE items (id int PRIMARY KEY, {', '.join(VALUES)})")
    sql("ALTER TABLE items REPLICA IDENTITY FULL")
    insert = f"INSERT INTO items VALUES (%s, {', '.join(text for text, _ in VALUES.values())})"
    sql(insert.replace("%s", "1"))
    source = cdc_source(database, "types").build()
    with MiniCluster():
        client = start(cdc_environment(PIPELINED, tmp_path), source, "types")
        until(lambda: committed("types"))
        sql(insert.replace("%s", "2"))
        sql("UPDATE items SET id = 3 WHERE id = 2")
        until(lambda: len(committed("types")) == 4)
        client.cancel().result()
    expected = {name.split()[0]: value for name, (_, value) in VALUES.items()}
    assert committed("types") == [
        ("+I", {"id": 1, **expected}),
        ("+I", {"id": 2, **expected}),
        ("-U", {"id": 2, **expected}),
        ("+U", {"id": 3, **expected}),
    ]


KEYS = {
    "text": ('k text COLLATE "C"', "'k' || i"),
    "text of another order": (
        'k text COLLATE "en-x-icu"',
        "CASE WHEN i %% 2 = 0 THEN 'a' ELSE 'B' END || i",
    ),
    "uuid": ("k uuid", "md5(i::text)::uuid"),
    "numeric": ("k numeric", "(i - 20) * 1.5"),
    "timestamp": ("k timestamptz", "'2020-01-01'::timestamptz + i * interval '1 day'"),
    "char": ("k char(4)", "i::text"),
    "bytea": ("k bytea", "decode(md5(i::text), 'hex')"),
}


changing = {"url": "", "done": False}


def change_and_fail(row):
    """Fail once; between two parts of the snapshot, rows that were read and rows that were not are changed."""
    if row.l == 30 and not changing["done"]:
        changing["done"] = True
        with psycopg.connect(changing["url"], autocommit=True) as connection:
            connection.execute("UPDATE items SET v = v + 1")
        raise RuntimeError("once")
    return row


@pytest.mark.parametrize("kind", KEYS)
def test_tables_with_all_kinds_of_keys_are_read_once_and_resumed(database, sql, kind, tmp_path):
    column, value = KEYS[kind]
    sql(f"CREATE TABLE items ({column}, l bigint, v int, PRIMARY KEY (k, l))")
    sql("ALTER TABLE items REPLICA IDENTITY FULL")
    value = value.replace("%%", "%")
    sql(f"INSERT INTO items SELECT {value}, i, 0 FROM generate_series(1, 60) i")
    name = f"keys {kind}"
    changing.update(url=database, done=False)
    source = cdc_source(database, "keys", split_size=25, fetch_size=4).build()
    with MiniCluster():
        client = start(cdc_environment(PIPELINED, tmp_path), source, name, change_and_fail)
        until(
            lambda: sum(kind == "+U" for kind, _ in committed(name)) or len(committed(name)) == 60
        )
        sql("DELETE FROM items WHERE l % 3 = 0")

        def table():
            found = {}
            for change, row in committed(name):
                at = (row["k"], row["l"])
                assert (at in found) == (change in {"-U", "-D"}), (change, row)
                if change in {"-U", "-D"}:
                    assert found.pop(at) == row["v"]
                else:
                    found[at] = row["v"]
            return sorted((at[1], v) for at, v in found.items())

        until(lambda: table() == sorted(sql("SELECT l, v FROM items").fetchall()))
        client.cancel().result()
    assert changing["done"]


def test_tables_by_patterns_with_metadata(database, sql, tmp_path):
    sql("CREATE SCHEMA shop")
    make_table(sql, 1, "shop.orders_eu")
    make_table(sql, 1, "shop.orders_us")
    make_table(sql, 1, "shop.other")
    make_table(sql, 1, "orders_none")
    source = cdc_source(
        database,
        "patterns",
        schema_list="shop",
        table_list="shop.orders_.*",
        deserializer=RowDeserializationSchema(["schema_name", "table_name", "op_ts", "row_kind"]),
    ).build()
    with MiniCluster():
        client = start(cdc_environment(PIPELINED, tmp_path), source, "patterns")
        until(lambda: len(committed("patterns")) == 2)
        for table in ("shop.orders_us", "shop.other", "orders_none"):
            sql(f"UPDATE {table} SET v = 'new'")
        until(lambda: len(committed("patterns")) == 4)
        client.cancel().result()
    found = committed("patterns")
    assert sorted(row["table_name"] for _, row in found[:2]) == ["orders_eu", "orders_us"]
    assert [row["op_ts"] for _, row in found[:2]] == [0, 0]
    assert {row["table_name"] for _, row in found[2:]} == {"orders_us"}
    assert [row["row_kind"] for _, row in found[2:]] == ["-U", "+U"]
    assert all(row["op_ts"] > 1_600_000_000_000 for _, row in found[2:])


def test_columns_that_are_added_and_dropped_are_in_the_rows_from_then_on(database, sql, tmp_path):
    make_table(sql, 1)
    source = cdc_source(database, "columns").build()
    with MiniCluster():
        client = start(cdc_environment(PIPELINED, tmp_path), source, "columns")
        until(lambda: committed("columns"))
        sql("ALTER TABLE items ADD COLUMN more int DEFAULT 7")
        sql("INSERT INTO items VALUES (2, 'b', 1, 8)")
        sql("ALTER TABLE items DROP COLUMN v")
        sql("ALTER TABLE items RENAME COLUMN n TO m")
        sql("INSERT INTO items VALUES (3, 1, 9)")
        until(lambda: len(committed("columns")) == 3)
        client.cancel().result()
    assert [row for _, row in committed("columns")] == [
        {"id": 1, "v": "v1", "n": Decimal("1.25")},
        {"id": 2, "v": "b", "n": Decimal("1.00"), "more": 8},
        {"id": 3, "m": Decimal("1.00"), "more": 9},
    ]


def test_without_before_images_updates_are_single_and_a_change_of_the_key_is_two(
    database, sql, tmp_path
):
    sql("CREATE TABLE items (id int PRIMARY KEY, v text, large text)")
    sql("ALTER TABLE items ALTER large SET STORAGE EXTERNAL")
    sql("CREATE TABLE full_items (id int PRIMARY KEY, v text)")
    sql("ALTER TABLE full_items REPLICA IDENTITY FULL")
    source = cdc_source(database, "upserts", include_before_image=False).build()
    with MiniCluster():
        client = start(cdc_environment(PIPELINED, tmp_path), source, "upserts")
        until(lambda: reader_of_slot(sql))
        sql("INSERT INTO items VALUES (1, 'a', repeat('x', 9000))")
        sql("UPDATE items SET v = 'b'")
        sql("UPDATE items SET id = 2, large = 'y'")
        sql("DELETE FROM items")
        sql("INSERT INTO full_items VALUES (1, 'a')")
        sql("UPDATE full_items SET v = 'b'")
        sql("UPDATE full_items SET id = 2")
        sql("DELETE FROM full_items")
        until(lambda: len(committed("upserts")) == 10)
        client.cancel().result()
    assert committed("upserts") == [
        ("+I", {"id": 1, "v": "a", "large": "x" * 9000}),
        ("+U", {"id": 1, "v": "b", "large": "__debezium_unavailable_value"}),
        ("-D", {"id": 1, "v": None, "large": None}),
        ("+I", {"id": 2, "v": "b", "large": "y"}),
        ("-D", {"id": 2, "v": None, "large": None}),
        ("+I", {"id": 1, "v": "a"}),
        ("+U", {"id": 1, "v": "b"}),
        ("-D", {"id": 1, "v": None}),
        ("+I", {"id": 2, "v": "b"}),
        ("-D", {"id": 2, "v": "b"}),
    ]


def test_large_values_that_an_update_did_not_touch_come_with_before_images(database, sql, tmp_path):
    sql("CREATE TABLE items (id int PRIMARY KEY, v text, large text)")
    sql("ALTER TABLE items ALTER large SET STORAGE EXTERNAL")
    sql("ALTER TABLE items REPLICA IDENTITY FULL")
    sql("INSERT INTO items VALUES (1, 'a', repeat('x', 9000))")
    source = cdc_source(database, "large").build()
    with MiniCluster():
        client = start(cdc_environment(PIPELINED, tmp_path), source, "large")
        until(lambda: committed("large"))
        sql("UPDATE items SET v = 'b'")
        until(lambda: len(committed("large")) == 3)
        client.cancel().result()
    assert committed("large")[2] == ("+U", {"id": 1, "v": "b", "large": "x" * 9000})


@pytest.mark.parametrize("mode", MODES)
def test_a_mere_snapshot_ends_and_needs_no_slot(database, sql, mode, tmp_path):
    make_table(sql, 100, identity="DEFAULT")
    source = cdc_source(
        database, "none", split_size=7, fetch_size=3, startup_options=StartupOptions.snapshot()
    ).build()
    with MiniCluster():
        env = cdc_environment(mode, tmp_path)
        rows = collect(env.from_source(source, WatermarkStrategy.no_watermarks(), "rows"))
    assert sorted(row.id for row in rows) == list(range(1, 101))
    slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    assert sql(slots).fetchone() == (0,)


@pytest.mark.parametrize("mode", MODES)
def test_events_in_the_form_of_debezium_from_the_latest_offset_then_the_committed_one(
    database, sql, mode, tmp_path, monkeypatch
):
    # In epoch mode the reader is not notified that the job has ended.
    monkeypatch.setattr("penstock.connectors.postgres_cdc.log_receiver.UNATTENDED_S", 0.5)
    make_table(sql, 3)

    def run(startup, change, is_last):
        events = []
        source = cdc_source(
            database,
            f"debezium_{mode}",
            startup_options=startup,
            deserializer=DebeziumDeserializationSchema(),
        ).build()
        env = cdc_environment(mode, tmp_path / startup.mode.value)
        stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "changes")
        with MiniCluster(), stream.execute_and_collect() as found:
            if change is not None:
                until(lambda: reader_of_slot(sql))
                change()
            for event in found:
                events.append(event)
                if is_last(event):
                    break
        return events

    def change():
        sql("UPDATE items SET v = 'new' WHERE id = 2")
        sql("TRUNCATE items")

    events = run(StartupOptions.latest(), change, lambda event: event["op"] == "t")
    assert [event["op"] for event in events] == ["u", "t"]
    assert events[0]["before"] == {"id": 2, "v": "v2", "n": Decimal("2.50")}
    assert events[0]["after"] == {"id": 2, "v": "new", "n": Decimal("2.50")}
    assert events[0]["source"]["table"] == "items"
    assert events[0]["source"]["snapshot"] == "false"
    until(lambda: not reader_of_slot(sql))
    sql("INSERT INTO items VALUES (9, 'while no job reads', 1)")
    # The end of what was read before may be confirmed or not.
    events = run(StartupOptions.committed(), None, lambda event: event["op"] == "c")
    assert events[-1]["after"] == {"id": 9, "v": "while no job reads", "n": Decimal("1.00")}


def test_values_out_of_pythons_range_go_to_the_side_output_with_their_origin(
    database, sql, tmp_path
):
    sql("CREATE TABLE items (id int PRIMARY KEY, at timestamp)")
    sql("ALTER TABLE items REPLICA IDENTITY FULL")
    sql("INSERT INTO items VALUES (1, '2020-01-01'), (2, 'infinity')")
    dead = OutputTag("dead")
    env = cdc_environment(PIPELINED, tmp_path)
    source = cdc_source(database, "dead").build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "changes").on_error(dead)
    stream.sink_to(ChangelogSink("dead good"))
    stream.get_side_output(dead).map(as_row).sink_to(ChangelogSink("dead letters"))
    with MiniCluster():
        client = env.execute_async()
        until(lambda: len(committed("dead letters")) == 1 and len(committed("dead good")) == 1)
        sql("INSERT INTO items VALUES (3, '0044-03-15 BC'), (4, '2020-01-01')")
        sql("TRUNCATE items")
        until(lambda: len(committed("dead letters")) == 3)
        client.cancel().result()
    assert [row["id"] for _, row in committed("dead good")] == [1, 4]
    origins = [row["origin"] for _, row in committed("dead letters")]
    assert [(each["table"], each.get("column")) for each in origins] == [
        ("public.items", "at"),
        ("public.items", "at"),
        ("public.items", None),
    ]
    assert origins[0]["lsn"] == "snapshot"
    assert "/" in origins[1]["lsn"]


def as_row(letter):
    return Row(origin=letter.origin)


ERRORS = {
    "no table": (
        "SELECT 1",
        {},
        "no table of .* matches",
    ),
    "no key": (
        "CREATE TABLE a (b int); ALTER TABLE a REPLICA IDENTITY FULL",
        {},
        "tables without a primary key",
    ),
    "no full identity": (
        "CREATE TABLE a (b int PRIMARY KEY)",
        {},
        'ALTER TABLE "public"."a" REPLICA IDENTITY FULL',
    ),
    "no publication": (
        "CREATE TABLE a (b int PRIMARY KEY); ALTER TABLE a REPLICA IDENTITY FULL",
        {"publication_autocreate_mode": "disabled"},
        "publication 'errors_",
    ),
    "no slot": (
        "CREATE TABLE a (b int PRIMARY KEY); ALTER TABLE a REPLICA IDENTITY FULL",
        {"startup_options": StartupOptions.committed()},
        "replication slot 'errors_",
    ),
    "a slot of another kind": (
        "SELECT pg_create_logical_replication_slot('errors', 'test_decoding')",
        {},
        "its plugin is test_decoding",
    ),
    "a wrong password": ("SELECT 1", {"password": "wrong"}, "cannot connect to"),
}


@pytest.mark.parametrize("problem", ERRORS)
def test_invalid_setups_are_errors_with_a_hint(database, sql, problem, tmp_path):
    prepare, settings, message = ERRORS[problem]
    if problem == "a slot of another kind":
        make_table(sql, 1)
    sql(prepare.replace("errors", f"errors_{sql('SELECT current_database()').fetchone()[0]}"))
    env = cdc_environment(PIPELINED, tmp_path, **{"restart-strategy.type": "none"})
    source = cdc_source(database, "errors", **settings).build()
    with MiniCluster(), pytest.raises(PenstockError) as caught:
        start(env, source, "errors").get_job_execution_result().result()
    assert re.search(message, str(caught.value)), str(caught.value)


def test_slot_dropped_while_the_job_was_down_is_an_error(database, sql, tmp_path):
    make_table(sql, 3)
    source = cdc_source(database, "dropped").build()
    with MiniCluster():
        client = start(cdc_environment(PIPELINED, tmp_path), source, "dropped")
        until(lambda: reader_of_slot(sql))
        path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
        until(lambda: not reader_of_slot(sql))
        assert [each.rpartition("_test")[0] for each in source.drop_slot()] == [
            "replication slot dropped",
            "publication dropped",
        ]
        env = cdc_environment(
            PIPELINED,
            tmp_path / "again",
            **{"execution.state-recovery.path": path, "restart-strategy.type": "none"},
        )
        with pytest.raises(PenstockError, match="does not exist"):
            start(env, source, "dropped").get_job_execution_result().result()


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_savepoint_resumes_with_another_parallelism(database, sql, mode, tmp_path):
    make_table(sql, 40)
    name = f"rescaled {mode}"
    source = cdc_source(database, f"rescaled_{mode}", split_size=10).build()
    with MiniCluster():
        client = start(cdc_environment(mode, tmp_path, 1), source, name)
        until(lambda: len(committed(name)) == 40)
        path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
        sql("UPDATE items SET v = 'while it stood still'")
        env = cdc_environment(
            mode, tmp_path / "again", 3, **{"execution.state-recovery.path": path}
        )
        client = start(env, source, name)
        until(lambda: len(committed(name)) == 120)
        client.cancel().result()
    assert {row["v"] for kind, row in committed(name) if kind == "+U"} == {"while it stood still"}


@pytest.mark.ci
def test_slot_of_another_job_is_an_error_and_of_a_dead_task_is_taken_over(database, sql, tmp_path):
    make_table(sql, 3)
    options = cdc_source(database, "held", connect_timeout=0.3).build().options
    sql(f"CREATE PUBLICATION {options.publication} FOR TABLE items")
    create_slot(options, "me")
    position = StreamPosition(parse_lsn(confirmed_lsn(sql)))
    zombie = LogReceiver(options, "one", position, 0, lambda: None)
    held = until(lambda: reader_of_slot(sql))
    heir = LogReceiver(options, "one", position, 0, lambda: None)
    until(lambda: reader_of_slot(sql) not in {None, held})
    sql("ALTER ROLE CURRENT_USER SET wal_sender_timeout = '100ms'")
    try:
        stranger = LogReceiver(options, "two", position, 0, lambda: None)
        found = until(stranger.mailbox.take)
        assert "is in use" in str(found)
        assert "'one'" in str(found)
    finally:
        sql("ALTER ROLE CURRENT_USER RESET wal_sender_timeout")
    for each in (zombie, heir, stranger):
        each.stop()


@pytest.mark.ci
def test_transactions_that_the_creation_of_a_slot_waits_for_are_named(
    database, sql, tmp_path, monkeypatch, caplog
):
    make_table(sql, 3)
    monkeypatch.setattr(slots, "FIRST_REPORT_S", 0.01)
    monkeypatch.setattr(slots, "REPORTS_EVERY_S", 0.2)
    sql("BEGIN; INSERT INTO items VALUES (4, 'prepared', 0); PREPARE TRANSACTION 'left behind'")
    with psycopg.connect(database, application_name="a long report") as writer, MiniCluster():
        writer.execute("INSERT INTO items VALUES (5, 'open', 0)")
        source = cdc_source(database, "blocked").build()
        client = start(cdc_environment(PIPELINED, tmp_path), source, "blocked")
        until(lambda: "left behind" in caplog.text and "a long report" in caplog.text)
        assert f"waiting to create the replication slot '{source.options.slot}'" in caplog.text
        assert f"transaction of process {writer.info.backend_pid} ('a long report')" in caplog.text
        sql("COMMIT PREPARED 'left behind'")
        caplog.clear()
        until(lambda: "a long report" in caplog.text)
        assert "left behind" not in caplog.messages[-1]
        writer.commit()
        until(lambda: len(committed("blocked")) == 5)
        client.cancel().result()


def test_an_idle_table_does_not_keep_the_log(database, sql, tmp_path):
    make_table(sql, 3)
    sql("CREATE TABLE other (id int)")
    source = cdc_source(database, "idle", table_list="items").build()
    with MiniCluster():
        client = start(cdc_environment(PIPELINED, tmp_path), source, "idle")
        until(lambda: reader_of_slot(sql))
        sql("INSERT INTO other SELECT generate_series(1, 1000)")
        (end,) = sql("SELECT pg_current_wal_lsn()::text").fetchone()
        until(lambda: parse_lsn(confirmed_lsn(sql)) >= parse_lsn(end))
        client.cancel().result()


def last_reply(sql, process):
    """Return when the server last received a status update from the reader of one of its processes."""
    (at,) = sql("SELECT reply_time FROM pg_stat_replication WHERE pid = %s", [process]).fetchone()
    return at


def test_a_busy_task_does_not_lose_its_connection(database, sql, tmp_path):
    """The thread sends status updates even if the task does not take the received messages."""
    make_table(sql, 3)
    options = cdc_source(database, "busy_task", heartbeat_interval=30).build().options
    sql(f"CREATE PUBLICATION {options.publication} FOR TABLE items")
    create_slot(options, "me")
    sql("ALTER ROLE CURRENT_USER SET wal_sender_timeout = '6s'")
    try:
        receiver = LogReceiver(
            options, "me", StreamPosition(parse_lsn(confirmed_lsn(sql))), 0, lambda: None
        )
        sql("INSERT INTO items SELECT i, repeat('x', 1000), 0 FROM generate_series(10, 30000) i")
        until(lambda: receiver.mailbox.full)
        process = reader_of_slot(sql)
        assert process
        for _ in range(2):
            before = last_reply(sql, process)
            until(lambda: last_reply(sql, process) > before)
        assert receiver.mailbox.full
        receiver.stop()
    finally:
        sql("ALTER ROLE CURRENT_USER RESET wal_sender_timeout")
