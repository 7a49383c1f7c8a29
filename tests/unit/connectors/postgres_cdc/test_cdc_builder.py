"""The builder of the source: what it takes, and what it refuses at once."""

from __future__ import annotations

import pickle

import pytest

from penstock.connectors import Boundedness
from penstock.connectors.postgres_cdc import (
    PostgresCdcSource,
    RowDeserializationSchema,
    StartupOptions,
)
from penstock.connectors.postgres_cdc.options import matches
from penstock.errors import ArgumentError, PenstockError


def builder():
    return PostgresCdcSource.builder().hostname("h").database("d").username("u").password("p")


def test_a_source_can_be_sent_to_tasks_and_shows_no_password():
    source = builder().slot_name("s").password("secret").build()
    assert "secret" not in repr(source) + repr(source.options)
    sent = pickle.loads(pickle.dumps(source))
    assert repr(sent) == repr(source)
    assert sent.options.password == "secret"
    assert source.options.publication == "s"


def test_only_a_mere_snapshot_ends():
    assert builder().build().get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    only_rows = builder().startup_options(StartupOptions.snapshot()).build()
    assert only_rows.get_boundedness() is Boundedness.BOUNDED


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        ("hostname", ""),
        ("port", 0),
        ("port", "5432"),
        ("port", True),
        ("slot_name", "Upper Case"),
        ("slot_name", "x" * 64),
        ("table_list", "("),
        ("decoding_plugin_name", "wal2json"),
        ("publication_autocreate_mode", "sometimes"),
        ("startup_options", "initial"),
        ("split_size", 0),
        ("heartbeat_interval", 0),
        ("lsn_commit_checkpoints_num_delay", -1),
        ("deserializer", RowDeserializationSchema),
    ],
)
def test_invalid_arguments_are_rejected_at_once(call, argument):
    with pytest.raises(PenstockError) as caught:
        getattr(builder(), call)(argument)
    assert caught.value.hint


def test_a_source_needs_a_server_a_database_and_a_user():
    with pytest.raises(ArgumentError, match="needs hostname and database and username"):
        PostgresCdcSource.builder().build()
    with pytest.raises(ArgumentError, match="unknown metadata 'nothing'"):
        RowDeserializationSchema(["nothing"])


@pytest.mark.parametrize(
    ("schemas", "tables", "schema", "table", "expected"),
    [
        (["public"], [".*"], "public", "a", True),
        (["public"], [".*"], "other", "a", False),
        (["public"], ["public.a"], "public", "a", True),
        (["public"], ["a"], "public", "a", True),
        (["public"], ["a"], "public", "ab", False),
        (["s_.*"], ["s_1.orders_[0-9]+"], "s_1", "orders_12", True),
        (["s_.*"], ["s_1.orders_[0-9]+"], "s_2", "orders_12", False),
    ],
)
def test_tables_by_patterns(schemas, tables, schema, table, expected):
    assert matches(schemas, tables, schema, table) is expected
