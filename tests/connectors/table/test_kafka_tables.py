"""Tables of Kafka, with a real broker: SQL writes, SQL reads."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

import pytest

from penstock.common import RowKind
from penstock.errors import ConfigurationError, JobExecutionError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster
from tools.servers.kafka import KafkaBroker

ADDS = (RowKind.INSERT, RowKind.UPDATE_AFTER)


@pytest.fixture
def tables() -> TableEnvironment:
    return TableEnvironment.create(EnvironmentSettings.in_streaming_mode())


def options(kafka: KafkaBroker, topic: str, **more: str) -> str:
    """WITH (...) of a table that is read from its beginning to its end."""
    given = {
        "topic": topic,
        "properties.bootstrap.servers": kafka.bootstrap,
        "scan.bounded.mode": "latest-offset",
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    return ", ".join(f"'{key}' = '{value}'" for key, value in given.items())


def final(tables: TableEnvironment, query: str) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    with tables.execute_sql(query).collect() as rows:
        for row in rows:
            found[tuple(row)] += 1 if row.get_row_kind() in ADDS else -1
    return +found


@pytest.mark.ci
@pytest.mark.parametrize("form", ["json", "csv"])
def test_written_rows_are_read_back(
    tables: TableEnvironment, kafka: KafkaBroker, form: str
) -> None:
    topic = kafka.create_topic(f"orders-{uuid.uuid4().hex}", 2)
    given = options(kafka, topic, connector="kafka", format=form)
    tables.execute_sql(
        "CREATE TABLE orders (id BIGINT, name STRING, price DECIMAL(10, 2), ts TIMESTAMP(3), "
        f"at_partition INT METADATA FROM 'partition' VIRTUAL, at_offset BIGINT METADATA FROM 'offset' VIRTUAL) WITH ({given}, 'scan.startup.mode' = 'earliest-offset')"
    )
    with MiniCluster():
        tables.execute_sql(
            "INSERT INTO orders VALUES (1, 'a', 1.50, TIMESTAMP '2024-01-01 10:00:00.123'), "
            "(2, CAST(NULL AS STRING), 2.25, TIMESTAMP '2024-01-02 10:00:00')"
        ).wait()
        rows = final(
            tables,
            "SELECT id, name, price * 2, CAST(ts AS STRING), at_partition >= 0, at_offset FROM orders",
        )
    shown = {(row[0], row[1] or None, str(row[2]), row[3][:19], row[4]) for row in rows}
    assert shown == {
        (1, "a", "3.00", "2024-01-01 10:00:00", True),
        (2, None, "4.50", "2024-01-02 10:00:00", True),
    }
    assert {row[5] for row in rows} <= {0, 1}


@pytest.mark.ci
def test_an_upsert_table_has_the_latest_row_of_each_key(
    tables: TableEnvironment, kafka: KafkaBroker
) -> None:
    topic = kafka.create_topic(f"counts-{uuid.uuid4().hex}", 2)
    given = options(kafka, topic, connector="upsert-kafka")
    tables.execute_sql(
        "CREATE TABLE counts (word STRING, n BIGINT, PRIMARY KEY (word) NOT ENFORCED) "
        f"WITH ({given}, 'key.format' = 'json', 'value.format' = 'json')"
    )
    with MiniCluster():
        tables.execute_sql(
            "INSERT INTO counts SELECT word, COUNT(*) FROM (VALUES ('a'), ('b'), ('a'), ('c')) AS t (word) "
            "GROUP BY word"
        ).wait()
        assert final(tables, "SELECT * FROM counts") == {("a", 2): 1, ("b", 1): 1, ("c", 1): 1}
        assert final(tables, "SELECT n, COUNT(*) FROM counts GROUP BY n") == {(1, 2): 1, (2, 1): 1}


@pytest.mark.ci
def test_changes_of_a_database_are_a_changing_table(
    tables: TableEnvironment, kafka: KafkaBroker
) -> None:
    topic = kafka.create_topic(f"changes-{uuid.uuid4().hex}", 2)
    given = options(kafka, topic, connector="kafka", format="debezium-json")
    tables.execute_sql(
        f"CREATE TABLE changes (word STRING, n BIGINT) WITH ({given}, 'scan.startup.mode' = 'earliest-offset')"
    )
    with MiniCluster():
        tables.execute_sql(
            "INSERT INTO changes SELECT word, COUNT(*) FROM (VALUES ('a'), ('b'), ('a')) AS t (word) GROUP BY word"
        ).wait()
        assert final(tables, "SELECT SUM(n) FROM changes") == {(3,): 1}


def test_an_update_takes_back_the_row_before_it(
    tables: TableEnvironment, kafka: KafkaBroker
) -> None:
    """Databases tell updates by one message with two rows."""
    topic = kafka.create_topic(f"updates-{uuid.uuid4().hex}", 1)
    reads = "'scan.startup.mode' = 'earliest-offset'"
    tables.execute_sql(
        f"CREATE TABLE events (e STRING) WITH ({options(kafka, topic, connector='kafka', format='raw')}, {reads})"
    )
    given = options(kafka, topic, connector="kafka", format="debezium-json")
    tables.execute_sql(
        f"CREATE TABLE stock (sku BIGINT, n INT, at_offset BIGINT METADATA FROM 'offset' VIRTUAL) WITH ({given}, {reads})"
    )
    events = (
        '{"before": null, "after": {"sku": 1, "n": 5}, "op": "c"}',
        '{"before": {"sku": 1, "n": 5}, "after": {"sku": 1, "n": 7}, "op": "u"}',
        '{"before": null, "after": {"sku": 2, "n": 1}, "op": "c"}',
        '{"before": {"sku": 2, "n": 1}, "after": null, "op": "d"}',
    )
    with MiniCluster():
        for event in events:  # one after the other: the order of VALUES is not kept
            tables.execute_sql(f"INSERT INTO events VALUES ('{event}')").wait()
        assert final(tables, "SELECT sku, SUM(n), COUNT(*) FROM stock GROUP BY sku") == {
            (1, 7, 1): 1
        }
        with tables.execute_sql("SELECT * FROM stock").collect() as rows:
            assert [(str(row.get_row_kind()), *row) for row in rows] == [
                ("+I", 1, 5, 0),
                ("-U", 1, 5, 1),
                ("+U", 1, 7, 1),
                ("+I", 2, 1, 2),
                ("-D", 2, 1, 3),
            ]


def test_metadata_is_written_and_read(tables: TableEnvironment, kafka: KafkaBroker) -> None:
    topic = kafka.create_topic(f"metadata-{uuid.uuid4().hex}", 1)
    given = options(kafka, topic, connector="kafka", format="json")
    tables.execute_sql(
        "CREATE TABLE t (id INT, `timestamp` TIMESTAMP_LTZ(3) METADATA, name STRING, o BIGINT METADATA FROM 'offset' VIRTUAL, "
        f"h MAP<STRING, BYTES> METADATA FROM 'headers') WITH ({given}, 'scan.startup.mode' = 'earliest-offset')"
    )
    tables.get_config().set("table.local-time-zone", "UTC")
    with MiniCluster():
        tables.execute_sql(
            "INSERT INTO t VALUES (1, CAST(TIMESTAMP '2024-01-01 10:00:00.123' AS TIMESTAMP_LTZ(3)), 'a', MAP['from', x'6869'])"
        ).wait()
        rows = final(tables, "SELECT id, CAST(`timestamp` AS STRING), name, o, h['from'] FROM t")
    assert rows == {(1, "2024-01-01 10:00:00.123", "a", 0, b"hi"): 1}


def test_metadata_columns_of_change_events(tables: TableEnvironment, kafka: KafkaBroker) -> None:
    topic = kafka.create_topic(f"reported-{uuid.uuid4().hex}", 1)
    reads = "'scan.startup.mode' = 'earliest-offset'"
    tables.execute_sql(
        f"CREATE TABLE events (e STRING) WITH ({options(kafka, topic, connector='kafka', format='raw')}, {reads})"
    )
    given = options(kafka, topic, connector="kafka", format="debezium-json")
    tables.execute_sql(
        "CREATE TABLE stock (at TIMESTAMP_LTZ(3) METADATA FROM 'value.source.timestamp' VIRTUAL, sku BIGINT, "
        f"origin STRING METADATA FROM 'value.source.table' VIRTUAL) WITH ({given}, {reads})"
    )
    event = '{"before": null, "after": {"sku": 1}, "op": "c", "source": {"ts_ms": 1500, "table": "goods"}}'
    tables.get_config().set("table.local-time-zone", "UTC")
    with MiniCluster():
        tables.execute_sql(f"INSERT INTO events VALUES ('{event}')").wait()
        rows = final(tables, "SELECT sku, origin, CAST(at AS STRING) FROM stock")
    assert rows == {(1, "goods", "1970-01-01 00:00:01.500"): 1}


SERVER = "'properties.bootstrap.servers' = 'h:1'"
JSON = "'connector' = 'kafka', 'topic' = 't', 'format' = 'json'"
UPSERTS = (
    "'connector' = 'upsert-kafka', 'topic' = 't', 'key.format' = 'json', 'value.format' = 'json'"
)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (f"(a INT) WITH ({JSON})", "bootstrap"),
        (f"(a INT) WITH ({JSON}, {SERVER}, 'topc' = 't')", "did you mean 'topic'"),
        (f"(a INT) WITH ({UPSERTS}, {SERVER})", "primary key"),
        (
            f"(o BIGINT METADATA FROM 'ofset') WITH ({JSON}, {SERVER})",
            "unknown metadata key 'ofset'",
        ),
        (
            f"(o STRING METADATA FROM 'value.table') WITH ({JSON}, {SERVER})",
            "unknown metadata key 'value.t",
        ),
    ],
)
def test_a_table_that_cannot_be_is_refused_when_it_is_used(
    tables: TableEnvironment, statement: str, reason: str
) -> None:
    tables.execute_sql(f"CREATE TABLE t {statement}")
    with pytest.raises(ConfigurationError) as refused:
        tables.execute_sql("SELECT * FROM t")
    assert reason in str(refused.value)


def test_metadata_that_only_kafka_knows_is_not_written(tables: TableEnvironment) -> None:
    tables.execute_sql(f"CREATE TABLE t (a INT, `offset` BIGINT METADATA) WITH ({JSON}, {SERVER})")
    with pytest.raises(ConfigurationError, match="metadata 'offset' cannot be written"):
        tables.execute_sql("INSERT INTO t VALUES (1, 2)")


def test_malformed_message_error_names_the_option_to_skip_it(
    tables: TableEnvironment, kafka: KafkaBroker
) -> None:
    topic = kafka.create_topic(f"bad-{uuid.uuid4().hex}", 1)
    reads = "'scan.startup.mode' = 'earliest-offset'"
    tables.execute_sql(
        f"CREATE TABLE texts (t STRING) WITH ({options(kafka, topic, connector='kafka', format='raw')})"
    )
    plain = options(kafka, topic, connector="kafka", format="json")
    value = options(kafka, topic, connector="kafka", value_format="csv")
    tables.execute_sql(f"CREATE TABLE objects (a INT) WITH ({plain}, {reads})")
    tables.execute_sql(f"CREATE TABLE lines (a INT) WITH ({value}, {reads})")
    with MiniCluster():
        tables.execute_sql('INSERT INTO texts VALUES (\'{"a": "x"}\')').wait()
        for table, format, option in (
            ("objects", "JSON", "json"),
            ("lines", "CSV", "value.csv"),
        ):
            with pytest.raises(JobExecutionError) as caught:
                final(tables, f"SELECT * FROM {table}")
            reported = str(caught.value)
            assert reported.startswith(
                f"table `default_catalog`.`default_database`.`{table}`: invalid {format} record: "
            )
            assert f'detail: at topic {topic}, partition 0, offset 0: b\'{{"a": "x"}}\'' in reported
            assert (
                f"hint: set '{option}.ignore-parse-errors' = 'true' to read such values as NULL and skip unreadable rows"
                in reported
            )
            assert "on_error" not in reported


def test_group_without_offsets_error_names_the_startup_option(
    tables: TableEnvironment, kafka: KafkaBroker
) -> None:
    topic = kafka.create_topic(f"fresh-{uuid.uuid4().hex}", 1)
    given = options(kafka, topic, connector="kafka", format="raw")
    tables.execute_sql(f"CREATE TABLE fresh (t STRING) WITH ({given})")
    tables.execute_sql(
        f"CREATE TABLE reset (t STRING) WITH ({given}, 'properties.auto.offset.reset' = 'earliest')"
    )
    with MiniCluster():
        tables.execute_sql("INSERT INTO fresh VALUES ('a')").wait()
        with pytest.raises(JobExecutionError, match="has no offset for") as caught:
            final(tables, "SELECT * FROM fresh")
        assert "set 'properties.auto.offset.reset' to 'earliest' or 'latest'" in str(caught.value)
        assert final(tables, "SELECT * FROM reset") == {("a",): 1}
