"""From the rows of a snapshot to the log: whatever is read when, each change counts once."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.postgres_cdc.changes import RowDeserializationSchema
from penstock.connectors.postgres_cdc.chunks import SnapshotFilter
from penstock.connectors.postgres_cdc.options import CdcOptions
from penstock.connectors.postgres_cdc.pgoutput import (
    PgOutputBegin,
    PgOutputColumn,
    PgOutputDelete,
    PgOutputInsert,
    PgOutputRelation,
    PgOutputUpdate,
)
from penstock.connectors.postgres_cdc.positions import (
    StreamPosition,
    TableSnapshot,
    Visibility,
    format_lsn,
    parse_lsn,
)
from penstock.connectors.postgres_cdc.table_changes import TableChanges
from penstock.connectors.postgres_cdc.values import PostgresTypes
from tests.builders.changelog import apply

OPTIONS = CdcOptions("h", 1, "d", "u", "p")
RELATION = PgOutputRelation(
    1,
    "public",
    "items",
    "f",
    (PgOutputColumn("id", 23, -1, key=True), PgOutputColumn("v", 23, -1, key=True)),
)
KEYS = 6


@given(st.integers(0, 2**64 - 1))
def test_a_log_sequence_number_is_read_as_it_is_written(lsn):
    assert parse_lsn(format_lsn(lsn)) == lsn


@given(st.integers(3, 2**40), st.sets(st.integers(0, 20)), st.integers(0, 40))
def test_snapshot_visibility_with_wrapped_transaction_ids(xmin, running, ahead):
    """Transactions of the log are given by the lower half of their numbers."""
    xmax = xmin + 21
    text = f"{xmin}:{xmax}:{','.join(str(xmin + each) for each in sorted(running))}"
    seen = Visibility.parse(text)
    for xid in range(max(3, xmin - 5), xmax + ahead):
        expected = xid < xmax and (xid - xmin) not in running
        assert seen.sees(xid % 2**32) == expected


@given(
    st.tuples(st.integers(0, 9), st.integers(0, 9)), st.tuples(st.integers(0, 9), st.integers(0, 9))
)
def test_positions_are_ordered_by_commit_and_number(one, other):
    assert (StreamPosition(*one) < StreamPosition(*other)) == (one < other)
    assert (StreamPosition(*one) == StreamPosition(*other)) == (one == other)


def test_a_position_forgets_snapshots_when_it_has_got_past_them():
    table = TableSnapshot("public", "items", ("id",), ("int4",), ((None, "3:3:"),))
    start = StreamPosition(10, 0, 20, (table,))
    assert start.at(19, 3).snapshots == (table,)
    assert start.at(20).snapshots == ()
    assert start.at(20) == StreamPosition(20)


operation = st.tuples(
    st.sampled_from(["put", "delete", "move"]), st.integers(0, KEYS - 1), st.integers(0, KEYS - 1)
)
# A transaction has changes, and commits after some others that began later.
transactions = st.lists(
    st.tuples(st.lists(operation, min_size=1, max_size=4), st.integers(0, 3)), max_size=12
)


def history(script):
    """Run transactions one after another, but with numbers that do not follow the order of commits.

    Returns (xid, messages) in the order of commits, and the table after each.
    """
    order = sorted(range(len(script)), key=lambda n: (n + script[n][1], n))
    table: dict[int, int] = {}
    log, states = [], [{}]
    values = itertools.count(1)
    for n in order:
        messages = []
        for what, key, other in script[n][0]:
            old = (str(key), str(table.get(key)))
            if what == "delete" and key in table:
                del table[key]
                messages.append(PgOutputDelete(1, None, old))
            elif what == "put" and key in table:
                table[key] = next(values)
                messages.append(PgOutputUpdate(1, None, old, (str(key), str(table[key]))))
            elif what == "put":
                table[key] = next(values)
                messages.append(PgOutputInsert(1, (str(key), str(table[key]))))
            elif what == "move" and key in table and other not in table:
                table[other] = table.pop(key)
                messages.append(PgOutputUpdate(1, None, old, (str(other), str(table[other]))))
        log.append((100 + n, messages))
        states.append(dict(table))
    return log, states


@given(transactions, st.data())
def test_rows_of_any_snapshots_and_the_log_make_the_table(script, data):
    """Parts of a table are read at any moments; the log begins before all of them."""
    log, states = history(script)
    bounds = sorted(data.draw(st.sets(st.integers(0, KEYS - 1), max_size=3)))
    first = data.draw(st.integers(0, len(log)))  # where the log begins
    schema = RowDeserializationSchema()
    changes, parts = [], []
    for lower, upper in itertools.pairwise([-1, *bounds, KEYS]):
        moment = data.draw(st.integers(first, len(log)))
        committed = {xid for xid, _ in log[:moment]}
        last = 100 + len(script)
        running = sorted(set(range(100, last)) - committed)
        parts.append(
            (None if upper == KEYS else (str(upper),), f"100:{last}:{','.join(map(str, running))}")
        )
        rows = {key: v for key, v in states[moment].items() if lower < key <= upper}
        changes += [("+I", {"id": key, "v": v}) for key, v in rows.items()]
    snapshot = SnapshotFilter(TableSnapshot("public", "items", ("id",), ("int4",), tuple(parts)))
    table = TableChanges(OPTIONS, RELATION, PostgresTypes(), snapshot)
    for xid, messages in log[first:]:
        for number, message in enumerate(messages, 1):
            change = table.changes(message, PgOutputBegin(1, 0, xid), number, filtered=True)
            if change is not None:
                found = schema.deserialize(change)
                changes += [(str(row.get_row_kind()), row.as_dict()) for row in found]
    assert {key: row["v"] for (key,), row in apply(changes).items()} == states[-1]
