"""JSON that gives back the very same Python values."""

from __future__ import annotations

import datetime as dt
import json
import pickle

import pytest
from hypothesis import given, settings

from penstock.common.types import Row
from penstock.connectors.base.source import SourceSplit, SplitProgress
from penstock.savepoint.metadata import pretty
from penstock.savepoint.open_json import UnopenedPickle, from_json, pickled_to_json, to_json
from penstock.windowing import CountWindow, GlobalWindow, TimeWindow
from tests.builders.examples import examples
from tests.builders.values import BERLIN, Color, Point, exact, values


def through_text(data):
    return json.loads(pretty(data).encode("utf-8"))


@given(values)
@settings(max_examples=examples(400), deadline=None)
def test_json_round_trip_preserves_values_and_types(value):
    assert exact(from_json(through_text(to_json(value)))) == exact(value)


@given(values)
@settings(max_examples=examples(200), deadline=None)
def test_parts_that_are_not_opened_are_themselves_after_pickling(value):
    unopened = from_json(through_text(to_json(value)), load=UnopenedPickle)
    assert exact(pickle.loads(pickle.dumps(unopened))) == exact(value)


@given(values)
@settings(max_examples=examples(200), deadline=None)
def test_the_text_is_json_that_everybody_reads(value):
    def refuse(constant):
        raise AssertionError(constant)

    json.loads(pretty(to_json(value)), parse_constant=refuse)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param([1, 1.5, "ü", None, True], [1, 1.5, "ü", None, True], id="plain"),
        pytest.param({"a": {"b": []}}, {"a": {"b": []}}, id="dictionary by text"),
        pytest.param({1: "a"}, {"$dict": [[1, "a"]]}, id="dictionary by number"),
        pytest.param({"$tuple": 1}, {"$dict": [["$tuple", 1]]}, id="dictionary like a tag"),
        pytest.param((1, (2,)), {"$tuple": [1, {"$tuple": [2]}]}, id="tuple"),
        pytest.param(float("-inf"), {"$float": "-inf"}, id="infinity"),
        pytest.param(b"ab", {"$bytes": "YWI="}, id="bytes"),
        pytest.param(TimeWindow(0, 5), {"$window": [0, 5]}, id="time window"),
        pytest.param(CountWindow(5), {"$window": 5}, id="count window"),
        pytest.param(GlobalWindow(), {"$window": None}, id="global window"),
        pytest.param(Row(a=1), {"$row": {"kind": "+I", "names": ["a"], "values": [1]}}, id="row"),
        pytest.param(
            dt.datetime(2024, 5, 1, tzinfo=dt.UTC),
            {"$datetime": "2024-05-01T00:00:00+00:00"},
            id="datetime",
        ),
        pytest.param(
            dt.datetime(2024, 5, 1, tzinfo=BERLIN),
            {"$datetime": ["2024-05-01T00:00:00", "Europe/Berlin"]},
            id="datetime in Berlin",
        ),
    ],
)
def test_the_json_of(value, expected):
    assert to_json(value) == expected
    assert exact(from_json(expected)) == exact(value)


def test_unknown_values_are_pickled_in_place():
    data = to_json({"point": Point(1), "color": [Color.RED]})
    assert set(data) == {"point", "color"}
    assert list(data["point"]) == ["$pickle"] == list(data["color"][0])


def test_the_progress_of_a_split_can_be_read():
    progress = SplitProgress(SourceSplit("file 1", ("a.csv", 0)), position=17, watermark=5)
    data = to_json((progress,))
    name, fields = data["$tuple"][0]["$object"]
    assert name == "penstock.connectors.base.source:SplitProgress"
    assert (fields["position"], fields["watermark"]) == (17, 5)
    assert fields["split"]["$object"][1]["payload"] == {"$tuple": ["a.csv", 0]}
    assert from_json(data) == (progress,)


def test_a_field_that_a_class_got_later_has_its_default():
    data = to_json(SplitProgress(SourceSplit("1"), position=17))
    del data["$object"][1]["idle"]
    assert from_json(data) == SplitProgress(SourceSplit("1"), position=17)


def test_only_classes_of_penstock_are_created_by_name():
    with pytest.raises(ValueError, match="unknown class"):
        from_json({"$object": ["savepoint.values:Point", {"x": 1}]})


def test_an_object_that_a_value_holds_twice_stays_one_object():
    shared = [1]
    one, other = from_json(to_json([shared, shared]))
    assert one is other


def test_a_value_that_holds_itself_comes_back():
    value = []
    value.append(value)
    found = from_json(to_json(value))
    assert found[0] is found


def test_a_pickle_whose_classes_are_not_known_stays_a_pickle():
    gone = pickle.dumps(Point(1)).replace(b"Point", b"Joint")
    data = pickled_to_json(gone)
    assert list(data) == ["$pickle"]
    assert from_json(data, load=UnopenedPickle) == UnopenedPickle(gone)
