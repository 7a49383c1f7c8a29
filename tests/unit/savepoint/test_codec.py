"""Columns of Arrow give back the very same values, and are as open as they can be."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from penstock.common.types import Row, RowKind
from penstock.savepoint.codec import PICKLED, from_json, infer, merge
from penstock.windowing import CountWindow, GlobalWindow, TimeWindow
from tests.builders.examples import examples
from tests.builders.values import BERLIN, SOME_UUID, Color, Level, Pair, Point, columns, exact


def through_parquet(codec, values):
    """Encode, write, read and decode with a codec that was JSON in between."""
    array = codec.encode(values)
    array.validate(full=True)
    assert array.type == codec.arrow_type
    file = io.BytesIO()
    pq.write_table(pa.table({"column": array}), file)
    read = pq.read_table(pa.BufferReader(file.getvalue())).column(0).combine_chunks()
    return from_json(json.loads(json.dumps(codec.to_json()))).decode(read)


@given(columns)
@settings(max_examples=examples(400), deadline=None)
def test_codec_round_trip_preserves_values_and_types(values):
    assert exact(through_parquet(infer(values), values)) == exact(values)


@given(columns, columns)
@settings(max_examples=examples(200), deadline=None)
def test_a_merged_codec_does_for_the_values_of_both(one, other):
    merged = merge(infer(one), infer(other))
    assert exact(through_parquet(merged, one + other)) == exact(one + other)


@given(columns, columns)
@settings(max_examples=examples(200), deadline=None)
def test_merging_once_more_changes_nothing(one, other):
    merged = merge(infer(one), infer(other))
    assert merge(merged, infer(one)) == merged == merge(merged, infer(other))


def test_a_slice_of_an_array_decodes_to_a_slice_of_the_values():
    values = [[(1, {"a": 2.5})], None, [], [(2, {}), (3, None)], [(4, {"b": None})]]
    array = infer(values).encode(values)
    assert infer(values).decode(array.slice(1, 3)) == values[1:4]


NOON = dt.datetime(2024, 5, 1, 12, 30, 0, 7)


@pytest.mark.parametrize(
    ("values", "arrow_type"),
    [
        pytest.param([None, None], "null", id="nothing"),
        pytest.param([True, None], "bool", id="bool"),
        pytest.param([1, -(2**63)], "int64", id="int"),
        pytest.param([2**63], "binary", id="int beyond 64 bits"),
        pytest.param([1, True], "binary", id="int and bool"),
        pytest.param([1, 1.0], "binary", id="int and float"),
        pytest.param([Level.LOW], "binary", id="int enum"),
        pytest.param([Color.RED], "binary", id="enum"),
        pytest.param([1.5, float("nan")], "double", id="float"),
        pytest.param(["a", "ü"], "string", id="text"),
        pytest.param(["\ud800"], "binary", id="text without UTF-8"),
        pytest.param([b"a"], "binary", id="bytes"),
        pytest.param([NOON.date()], "date32[day]", id="date"),
        pytest.param([NOON.time()], "time64[us]", id="time"),
        pytest.param([NOON], "timestamp[us]", id="datetime"),
        pytest.param([NOON.replace(tzinfo=dt.UTC)], "timestamp[us, tz=UTC]", id="datetime in UTC"),
        pytest.param(
            [NOON.replace(tzinfo=BERLIN)],
            "timestamp[us, tz=Europe/Berlin]",
            id="datetime in Berlin",
        ),
        pytest.param([NOON, NOON.replace(tzinfo=dt.UTC)], "binary", id="datetimes of two zones"),
        pytest.param([NOON.replace(fold=1)], "binary", id="the second time of the hour"),
        pytest.param(
            [dt.datetime(2024, 3, 31, 2, 30, tzinfo=BERLIN)], "binary", id="time that is skipped"
        ),
        pytest.param([dt.timedelta(days=-1)], "duration[us]", id="timedelta"),
        pytest.param([Decimal("1.50"), Decimal("0.00")], "decimal128(38, 2)", id="decimal"),
        pytest.param([Decimal("1.5"), Decimal("1.50")], "string", id="decimals of two scales"),
        pytest.param([SOME_UUID], "fixed_size_binary[16]", id="uuid"),
        pytest.param([TimeWindow(0, 1)], "struct<start: int64, end: int64>", id="time window"),
        pytest.param([CountWindow(1)], "struct<id: int64>", id="count window"),
        pytest.param([GlobalWindow()], "bool", id="global window"),
        pytest.param([("a", 1), ("b", None)], "struct<f0: string, f1: int64>", id="tuple"),
        pytest.param([(1,), (1, 2), ()], "list<item: int64>", id="tuples of many lengths"),
        pytest.param([Pair(1, 2)], "binary", id="named tuple"),
        pytest.param([Row(a=1, b="x")], "struct<a: int64, b: string>", id="row"),
        pytest.param([Row(1, "x")], "struct<f0: int64, f1: string>", id="row without names"),
        pytest.param(
            [Row.of_kind(RowKind.DELETE, a=1)],
            "struct<a: int64, row_kind: string>",
            id="row of a changelog",
        ),
        pytest.param([Row(a=1), Row(b=1)], "binary", id="rows of two kinds"),
        pytest.param([[1, None], []], "list<item: int64>", id="list"),
        pytest.param([{"a": [1]}], "map<string, list<item: int64>>", id="dict"),
        pytest.param([{None: 1}], "map<binary, int64>", id="dict with None as a key"),
        pytest.param([{1, 2}], "list<item: int64>", id="set"),
        pytest.param([Point(1)], "binary", id="object"),
        pytest.param(
            [("a", Point(1)), ("b", Point(2))],
            "struct<f0: string, f1: binary>",
            id="object inside a tuple",
        ),
        pytest.param([{"a": 1, "b": "x"}], "map<string, binary>", id="dict of mixed values"),
    ],
)
def test_a_column_is_as_open_as_it_can_be(values, arrow_type):
    codec = infer(values)
    assert str(codec.arrow_type) == arrow_type
    assert exact(through_parquet(codec, values)) == exact(values)


def cycle():
    found = [1]
    found.append(found)
    return found


def test_an_object_that_a_value_holds_twice_stays_one_object():
    shared = [1]
    for values in ([[shared, shared]], [{"a": shared, "b": (shared,)}], [(Row(1),) * 2]):
        codec = infer(values)
        (found,) = through_parquet(codec, values)
        parts = list(found.values()) if isinstance(found, dict) else found
        one, other = parts
        assert one is (other[0] if isinstance(found, dict) else other)


class Holder:
    """An object that refers to others."""

    def __init__(self, *held):
        self.held = held


def test_an_object_that_is_also_inside_another_object_stays_one_object():
    shared = [1]
    values = [[shared, Holder(shared)], [shared, Holder(Holder([shared]))]]
    (first, holder), (second, outer) = through_parquet(infer(values), values)
    assert holder.held[0] is first
    assert outer.held[0].held[0][0] is second
    ((one, other),) = through_parquet(
        infer([(Holder(shared), Holder(shared))]), [(Holder(shared),) * 2]
    )
    assert one.held[0] is other.held[0]


def test_objects_that_share_nothing_are_pickled_one_by_one():
    values = [
        [("a", Holder([1], "x")), ("b", Holder([1], "x"))],
        [("c", Holder(holder := [], holder))],
    ]
    assert infer(values).to_json()["element"]["fields"] == [{"type": "str"}, {"type": "pickle"}]


def test_a_value_that_holds_itself_is_pickled():
    (found,) = through_parquet(infer([cycle()]), [cycle()])
    assert found[1] is found


def test_a_very_deep_value_is_pickled_from_some_depth_on():
    value = 1
    for _ in range(200):
        value = [value]
    assert through_parquet(infer([value]), [value]) == [value]


def test_no_codec_is_read_that_is_not_known():
    with pytest.raises(KeyError):
        from_json({"type": "hologram"})


def test_incompatible_codecs_merge_to_pickle():
    assert merge(PICKLED, infer([1])) == PICKLED == merge(infer([[1]]), infer([{}]))
