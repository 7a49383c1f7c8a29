"""Which errors of connectors end a job at once, and which follow the restart strategy."""

from __future__ import annotations

import pickle
import sqlite3

import psycopg.errors
from confluent_kafka import KafkaError

from penstock.connectors.jdbc.failures import refused
from penstock.connectors.jdbc.urls import parse_url
from penstock.connectors.kafka.errors import KafkaDataLossError, sink_error
from penstock.connectors.kafka.source_errors import fatal_error
from penstock.errors import (
    ArgumentError,
    CheckpointError,
    ConfigurationError,
    InvalidProgramError,
    RecordError,
    RestoreRefusedError,
    UnsupportedOperationError,
    suppresses_restarts,
)
from penstock.formats.confluent.registry import RegisteredSchema, SchemaRegistry
from tests.builders.cases import check_all
from tests.builders.schema_registry import registry_server

TARGET = parse_url("jdbc:postgresql://db.example.com/shop?user=me")


def _written(name: str) -> Exception:
    return sink_error(KafkaError(getattr(KafkaError, name)), "writing failed", "broker:9092")


def _read(name: str) -> Exception:
    found = fatal_error(KafkaError(getattr(KafkaError, name)), "broker:9092", "the Kafka source")
    assert found is not None
    return found


def _database(error: Exception) -> Exception:
    return refused(error, TARGET, "write rows", "INSERT INTO t VALUES (?)")


def _sqlite(statement: str) -> Exception:
    try:
        sqlite3.connect(":memory:").execute(statement)
    except sqlite3.Error as error:
        return _database(error)
    raise AssertionError(statement)


def _registry(auth: str | None) -> Exception:
    with registry_server(auth="me:secret") as server:
        try:
            SchemaRegistry(server.url, auth=auth).register("s", RegisteredSchema('"int"'))
        except Exception as error:
            return error
    raise AssertionError(auth)


def _away() -> Exception:
    with registry_server() as server:
        url = server.url
    try:
        SchemaRegistry(url, patience=0).register("s", RegisteredSchema('"int"'))
    except Exception as error:
        return error
    raise AssertionError(url)


PERMANENT = {
    "lost transaction": lambda: KafkaDataLossError("gone"),
    "Kafka, credentials of a sink": lambda: _written("SASL_AUTHENTICATION_FAILED"),
    "Kafka, rights of a sink": lambda: _written("TOPIC_AUTHORIZATION_FAILED"),
    "Kafka, large record": lambda: _written("MSG_SIZE_TOO_LARGE"),
    "Kafka, credentials of a source": lambda: _read("_AUTHENTICATION"),
    "Kafka, rights of a source": lambda: _read("GROUP_AUTHORIZATION_FAILED"),
    "database, no such table": lambda: _database(psycopg.errors.UndefinedTable()),
    "database, no such column": lambda: _database(psycopg.errors.UndefinedColumn()),
    "database, wrong password": lambda: _database(psycopg.errors.InvalidPassword()),
    "SQLite, no such table": lambda: _sqlite("INSERT INTO nowhere VALUES (1)"),
    "registry, credentials": lambda: _registry("me:wrong"),
    "option": lambda: ConfigurationError("unknown"),
    "program": lambda: InvalidProgramError("does not fit"),
    "missing feature": lambda: UnsupportedOperationError("not there"),
    "state": lambda: RestoreRefusedError("written in format 9"),
}
PASSING = {
    "Kafka, brokers away": lambda: _written("_ALL_BROKERS_DOWN"),
    "Kafka, new topic": lambda: _written("UNKNOWN_TOPIC_OR_PART"),
    "Kafka, fenced": lambda: _written("_FENCED"),
    "Kafka, TLS": lambda: _read("_SSL"),
    "database, deadlock": lambda: _database(psycopg.errors.DeadlockDetected()),
    "database, away": lambda: _database(psycopg.OperationalError("refused")),
    "registry, away": _away,
    "a record": lambda: RecordError("no number"),
    "an argument": lambda: ArgumentError("negative"),
    "a checkpoint": lambda: CheckpointError("storage"),
}


def test_errors_that_no_restart_can_help_say_so() -> None:
    def check(make: object) -> None:
        error = make()  # type: ignore[operator]
        assert suppresses_restarts(error), error
        # As it travels from a task to the driver.
        assert suppresses_restarts(pickle.loads(pickle.dumps(error)))

    check_all(PERMANENT, check)


def test_errors_that_may_pass_do_not() -> None:
    def check(make: object) -> None:
        error = make()  # type: ignore[operator]
        assert not suppresses_restarts(error), error

    check_all(PASSING, check)
