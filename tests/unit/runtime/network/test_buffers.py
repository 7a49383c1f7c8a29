"""Buffers: what goes in comes out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.network.buffers import decode, encode

MIN, MAX = -(2**63), 2**63 - 1
times = st.integers(MIN, MAX)
values = st.one_of(st.none(), st.integers(), st.text(), st.tuples(st.integers(), st.binary()))


@given(st.lists(st.tuples(values, st.one_of(st.none(), times), values)))
def test_records_come_back_as_they_were(records):
    column = [record[1] for record in records]
    batch = decode(encode([r[0] for r in records], column, [r[2] for r in records]))
    assert batch.values == [record[0] for record in records]
    assert batch.timestamps == column
    assert batch.keys == [record[2] for record in records]


@pytest.mark.parametrize(
    ("timestamps", "keys"),
    [
        pytest.param(None, None, id="neither"),
        pytest.param([1, 2], None, id="no keys"),
        pytest.param(None, ["a", "b"], id="no timestamps"),
        pytest.param([None, 2], ["a", "b"], id="one without a timestamp"),
        pytest.param([None, None], None, id="none with a timestamp"),
        pytest.param([MIN, MAX], None, id="the ends of time"),
    ],
)
def test_columns_that_are_missing_stay_missing(timestamps, keys):
    batch = decode(encode(["x", "y"], timestamps, keys))
    assert (batch.values, batch.timestamps, batch.keys) == (["x", "y"], timestamps, keys)
    assert all(type(time) is int for time in batch.timestamps or () if time is not None)


def test_timestamps_travel_as_eight_bytes_each():
    dense = len(encode([None] * 1000, [1_700_000_000_000 + n for n in range(1000)], None))
    assert dense < 1000 * 8 + 1000 * 2 + 200
