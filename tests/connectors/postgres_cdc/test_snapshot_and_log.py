"""A table as a stream: its rows, then its changes, each once, while others write to it."""

from __future__ import annotations

import pytest

from penstock.testing import MiniCluster
from tests.builders.changelog import apply, cdc_environment, cdc_source, committed, start, until
from tests.builders.modes import MODES, SOAKS
from tests.connectors.postgres_cdc.tables import Writer, make_table, rows_of


def settled(sql, name):
    """Whether the changelog has got to what is in the table."""
    return lambda: apply(committed(name)) == rows_of(sql)


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_rows_then_changes_with_their_kinds(database, sql, mode, tmp_path):
    make_table(sql, 50)
    name = f"kinds {mode}"
    source = cdc_source(database, "kinds", split_size=20, fetch_size=7).build()
    with MiniCluster():
        client = start(cdc_environment(mode, tmp_path), source, name)
        until(lambda: len(committed(name)) == 50)
        assert {kind for kind, _ in committed(name)} == {"+I"}
        sql("UPDATE items SET v = 'new' WHERE id = 7")
        sql("DELETE FROM items WHERE id = 8")
        sql("INSERT INTO items VALUES (100, NULL, 3)")
        until(lambda: len(committed(name)) >= 54)
        client.cancel().result()
    reported = [(kind, row["id"], row["v"], str(row["n"])) for kind, row in committed(name)[50:]]
    assert reported == [
        ("-U", 7, "v7", "8.75"),
        ("+U", 7, "new", "8.75"),
        ("-D", 8, "v8", "10.00"),
        ("+I", 100, None, "3.00"),
    ]


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(10 if SOAKS else 1))
def test_rows_that_are_changed_all_the_time_come_to_the_state_of_the_table(
    database, sql, mode, seed, tmp_path
):
    make_table(sql, 300)
    name = f"busy {mode} {seed}"
    writers = [Writer(database, (seed, n)) for n in range(3)]
    source = cdc_source(database, "busy", split_size=10, fetch_size=3).build()
    with MiniCluster():
        client = start(cdc_environment(mode, tmp_path), source, name)
        until(lambda: any(kind == "-U" for kind, _ in committed(name)))
        before = sum(writer.transactions for writer in writers)
        until(lambda: sum(writer.transactions for writer in writers) > before + 100)
        for writer in writers:
            writer.stop()
        until(settled(sql, name))
        client.cancel().result()
    kinds = [kind for kind, _ in committed(name)]
    assert kinds.count("-U") == kinds.count("+U") > 10
