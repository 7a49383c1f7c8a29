"""Texts of PostgreSQL as Python values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.postgres_cdc.values import (
    BUILT_IN,
    PostgresTypes,
    TypeEntry,
    comparable,
    parse_array,
)

OIDS = {entry.name: oid for oid, entry in BUILT_IN.items()}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("numeric", "NaN", "NaN"),
        ("numeric", "-1.50", Decimal("-1.50")),
        ("float8", "Infinity", float("inf")),
        ("interval", "00:00:00", dt.timedelta()),
        ("interval", "-00:00:01.5", dt.timedelta(seconds=-1.5)),
        ("interval", "1 mon", dt.timedelta(days=30)),
        ("interval", "-1 years -2 mons +3 days -04:05:06", dt.timedelta(days=-422, seconds=-14706)),
        (
            "timestamptz",
            "2001-02-03 02:05:06.1+00",
            dt.datetime(2001, 2, 3, 2, 5, 6, 100_000, dt.UTC),
        ),
        ("timestamptz", "1890-01-01 00:53:28+00:53:28", dt.datetime(1890, 1, 1, tzinfo=dt.UTC)),
        ("time", "23:59:59.999999", dt.time(23, 59, 59, 999_999)),
        ("_bool", "{t,f,NULL}", [True, False, None]),
        ("json", '{"a": 1}', '{"a": 1}'),
    ],
)
def test_values_by_type(kind, text, value):
    found = PostgresTypes().converter(OIDS[kind])(text)
    assert str(found) == value if value == "NaN" else found == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("timestamp", "infinity"),
        ("timestamp", "0044-03-15 00:00:00 BC"),
        ("date", "12024-01-01"),
        ("time", "24:00:00"),
        ("bool", "yes"),
        ("bytea", "abc"),
        ("interval", "P1Y"),
        ("interval", ""),
        ("_int4", "{1,{2}"),
    ],
)
def test_value_out_of_pythons_range_is_an_error(kind, text):
    with pytest.raises(ValueError):
        PostgresTypes().converter(OIDS[kind])(text)


def test_domains_are_their_base_and_unknown_types_are_text():
    types = PostgresTypes()
    assert types.missing([23, 70_000]) == {70_000}
    types.add(
        {70_000: TypeEntry("age", "d", base=70_001), 70_001: TypeEntry("years", "d", base=23)}
    )
    assert types.converter(70_000)("7") == 7
    assert types.converter(99_999)("7") == "7"


def written(value):
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "{" + ",".join(map(written, value)) + "}"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(
    st.recursive(
        st.lists(st.one_of(st.none(), st.text(max_size=5)), min_size=1, max_size=4),
        lambda inner: st.lists(inner, min_size=1, max_size=3),
        max_leaves=4,
    )
)
def test_arrays_are_read_as_they_were_written(value):
    assert parse_array(written(value), str) == value


@given(st.lists(st.tuples(st.integers(), st.text())))
def test_keys_are_ordered_by_number_and_by_code_points(keys):
    kinds = ("int8", "text")
    ordered = sorted(keys, key=lambda key: comparable(kinds, (str(key[0]), key[1])))
    assert ordered == sorted(keys, key=lambda key: (key[0], key[1].encode(errors="surrogatepass")))
