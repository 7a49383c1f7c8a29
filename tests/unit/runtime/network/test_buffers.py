"""Buffers: what goes in comes out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common.types import Row, RowKind
from penstock.runtime.network.buffers import UnknownBatchError, decode, register_kind
from penstock.runtime.records import RowBatch

MIN, MAX = -(2**63), 2**63 - 1
times = st.integers(MIN, MAX)
values = st.one_of(st.none(), st.integers(), st.text(), st.tuples(st.integers(), st.binary()))


@given(st.lists(st.tuples(values, st.one_of(st.none(), times), values)))
def test_records_come_back_as_they_were(records):
    column = [record[1] for record in records]
    sent = RowBatch([r[0] for r in records], column, [r[2] for r in records])
    batch = decode(sent.encode())
    assert batch.values == [record[0] for record in records]
    assert batch.timestamps == (None if records and set(column) == {None} else column)
    assert batch.keys == [record[2] for record in records]


@pytest.mark.parametrize(
    ("timestamps", "keys", "arrives"),
    [
        pytest.param(None, None, None, id="neither"),
        pytest.param([1, 2], None, [1, 2], id="no keys"),
        pytest.param(None, ["a", "b"], None, id="no timestamps"),
        pytest.param([None, 2], ["a", "b"], [None, 2], id="one without a timestamp"),
        pytest.param([None, None], None, None, id="none with a timestamp"),
        pytest.param([MIN, MAX], None, [MIN, MAX], id="the ends of time"),
    ],
)
def test_columns_that_are_missing_stay_missing(timestamps, keys, arrives):
    batch = decode(RowBatch(["x", "y"], timestamps, keys).encode())
    assert (batch.values, batch.timestamps, batch.keys) == (["x", "y"], arrives, keys)
    assert all(type(time) is int for time in batch.timestamps or () if time is not None)


rows = st.one_of(
    st.builds(Row, values, values),
    st.builds(lambda a, b: Row(a=a, b=b), values, values),
    st.builds(lambda a, b: Row(b=b, a=a), values, values),
    st.builds(Row, st.builds(Row, values)),
    st.builds(Row.of_kind, st.sampled_from(RowKind), values, values),
)


@given(
    st.one_of(st.lists(rows), st.lists(rows | values), rows.flatmap(lambda row: st.just([row] * 3)))
)
def test_rows_come_back_as_they_were(records):
    found = decode(RowBatch(records, None, None).encode()).values
    assert found == records
    assert list(map(type, found)) == list(map(type, records))
    assert list(map(repr, found)) == list(map(repr, records))


def test_rows_that_are_alike_travel_with_their_names_once():
    alike = RowBatch([Row(name=str(n), amount=n) for n in range(1000)])
    tuples = RowBatch([(str(n), n) for n in range(1000)])
    assert len(alike.encode()) < 1.2 * len(tuples.encode())


def test_a_row_that_was_sent_is_the_receivers_own():
    sent = [Row(name="a", tags=[1])]
    found = decode(RowBatch(sent).encode()).values
    found[0].tags.append(2)
    found[0]["name"] = "b"
    assert sent == [Row(name="a", tags=[1])]


def test_timestamps_travel_as_eight_bytes_each():
    dense = len(RowBatch([None] * 1000, [1_700_000_000_000 + n for n in range(1000)]).encode())
    assert dense < 1000 * 8 + 1000 * 2 + 200


def test_buffer_of_unknown_kind_is_rejected():
    with pytest.raises(UnknownBatchError, match="unknown kind of batch, 0x1") as caught:
        decode(b"\x01...")
    assert "0x80" in caught.value.detail


def test_two_kinds_of_batch_cannot_have_the_same_tag():
    class Other(RowBatch):
        """Rows again."""

    register_kind(RowBatch)  # it is known already
    with pytest.raises(ValueError, match="tag 0x80 is already used by RowBatch"):
        register_kind(Other)
