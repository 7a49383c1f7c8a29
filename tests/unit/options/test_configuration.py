from __future__ import annotations

import copy
import datetime as dt
import enum
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import ConfigOptions, Configuration, Duration, Time
from penstock.errors import ArgumentTypeError, ConfigurationError
from penstock.options.config_values import (
    format_duration,
    format_memory,
    parse_boolean,
    parse_duration,
    parse_list,
    parse_map,
    parse_memory,
    to_text,
)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("10 s", 10_000),
        ("200 ms", 200),
        ("5min", 300_000),
        ("1h", 3_600_000),
        ("1 d", 86_400_000),
        ("2 days", 172_800_000),
        ("3 Minutes", 180_000),
        ("1m", 60_000),
        ("7", 7),
        ("  8 sec ", 8000),
        ("2000 us", 2),
        ("3000000ns", 3),
        ("-1", -1),
    ],
)
def test_durations_are_read_in_flinks_forms(text, millis):
    assert parse_duration(text).to_millis() == millis


@pytest.mark.parametrize("text", ["", "s", "1.5 s", "10 parsecs", "1 s 2", "ten s", "- 1 s"])
def test_what_is_not_a_duration_is_refused(text):
    with pytest.raises(ValueError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64 mb", 64 * 2**20),
        ("1k", 1024),
        ("2 gb", 2 * 2**30),
        ("1tb", 2**40),
        ("20480", 20480),
        ("5 bytes", 5),
    ],
)
def test_sizes_of_memory_are_read_in_flinks_forms(text, size):
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "mb", "1.5 mb", "-1 b", "3 apples"])
def test_what_is_not_a_size_is_refused(text):
    with pytest.raises(ValueError):
        parse_memory(text)


@given(st.integers(-(10**24), 10**24))
def test_a_duration_that_is_written_reads_back(nanos):
    assert parse_duration(format_duration(Duration.of_nanos(nanos))) == Duration.of_nanos(nanos)


@given(st.integers(0, 2**62))
def test_a_size_that_is_written_reads_back(size):
    assert parse_memory(format_memory(size)) == size


@given(st.lists(st.text("abc;,' \"", min_size=1).map(str.strip).filter(bool)))
def test_a_list_that_is_written_reads_back(items):
    assert parse_list(to_text(items)) == items


@given(
    st.dictionaries(
        st.text("abc", min_size=1), st.text("xyz:,' ").map(str.strip).filter(bool), max_size=4
    )
)
def test_a_map_that_is_written_reads_back(entries):
    assert parse_map(to_text(entries)) == entries


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("a;b", ["a", "b"]),
        ("[a, b]", ["a", "b"]),
        ("'a;b';c", ["a;b", "c"]),
        ("", []),
        ("a", ["a"]),
    ],
)
def test_lists_are_read_in_both_forms(text, items):
    assert Configuration.parse_list_value(text) == items


def test_an_open_quote_is_an_error():
    with pytest.raises(ConfigurationError, match="not a list"):
        Configuration.parse_list_value("'a;b")


def test_a_map_needs_colons():
    assert parse_map("{a: 1, b: 2}") == {"a": "1", "b": "2"}
    with pytest.raises(ValueError, match="key:value"):
        parse_map("a=1")


def test_booleans_are_read_in_any_case():
    assert (parse_boolean("TRUE"), parse_boolean(" false ")) == (True, False)
    with pytest.raises(ValueError):
        parse_boolean("yes")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("string", "x", "x"),
        ("string", True, "true"),
        ("int", "4", 4),
        ("int", 4, 4),
        ("long", 2**40, 2**40),
        ("double", "1.5", 1.5),
        ("double", 1, 1.0),
        ("boolean", "True", True),
        ("boolean", False, False),
        ("duration", "10 s", Duration.of_seconds(10)),
        ("duration", 250, Duration.of_millis(250)),
        ("duration", dt.timedelta(seconds=1), Duration.of_seconds(1)),
        ("duration", Time.seconds(2), Duration.of_seconds(2)),
        ("duration", Duration.of_days(1), Duration.of_days(1)),
        ("memory", "1 kb", 1024),
        ("memory", 5, 5),
        ("map", "a:1", {"a": "1"}),
        ("map", {"a": 1}, {"a": "1"}),
        ("list", "a;b", ["a", "b"]),
        ("list", ["a", 1], ["a", "1"]),
    ],
)
def test_an_option_reads_text_and_fitting_values(kind, value, expected):
    option = getattr(ConfigOptions.key("k"), f"{kind}_type")().no_default_value()
    assert Configuration().set("k", value).get(option) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", "four"),
        ("int", 1.5),
        ("int", True),
        ("int", 2**31),
        ("long", 2**63),
        ("double", "x"),
        ("double", True),
        ("boolean", 1),
        ("boolean", "yes"),
        ("duration", "10 parsecs"),
        ("duration", 1.5),
        ("memory", -1),
        ("memory", "1 apple"),
        ("map", ["a"]),
        ("list", 5),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_name(kind, value):
    option = getattr(ConfigOptions.key("some.key"), f"{kind}_type")().no_default_value()
    with pytest.raises(ConfigurationError) as caught:
        Configuration.from_dict({"some.key": value}).get(option)
    assert caught.value.message == f"option 'some.key' cannot be {value!r}"
    assert caught.value.hint


@pytest.mark.parametrize("value", ["RED", "red", Colour.RED])
def test_names_are_read_in_any_case_and_from_enums(value):
    option = ConfigOptions.key("colour").enum_type(Colour).default_value("BLUE")
    assert Configuration().get(option) == "BLUE"
    assert Configuration().set("colour", value).get(option) == "RED"


def test_an_unknown_name_is_refused_with_the_choices():
    option = ConfigOptions.key("colour").enum_type(["RED", "BLUE"]).no_default_value()
    with pytest.raises(ConfigurationError, match="one of RED, BLUE"):
        Configuration().set(option, "green")


def test_a_default_must_fit_the_type():
    with pytest.raises(ConfigurationError):
        ConfigOptions.key("k").int_type().default_value("x")


def test_an_option_is_found_under_its_older_keys_its_own_first():
    option = (
        ConfigOptions.key("new").int_type().default_value(1).with_deprecated_keys("old", "older")
    )
    configuration = Configuration()
    assert configuration.get(option) == 1
    assert configuration.get(option, 9) == 9
    configuration.set("older", "3")
    assert configuration.get(option) == 3
    configuration.set("old", "4")
    assert configuration.get(option) == 4
    configuration.set(option, 5)
    assert configuration.get(option) == 5
    assert configuration.contains(option)


def test_an_error_names_the_key_that_was_used():
    option = ConfigOptions.key("new").int_type().default_value(1).with_deprecated_keys("old")
    with pytest.raises(ConfigurationError, match="option 'old'"):
        Configuration().set("old", "x").get(option)


def test_a_minimum_is_kept():
    option = ConfigOptions.key("k").duration_type().no_default_value().with_minimum(10)
    assert Configuration().set(option, 10).get(option) == Duration.of_millis(10)
    with pytest.raises(ConfigurationError, match="at least 10 ms"):
        Configuration().set(option, 9)


def test_a_map_may_be_spread_over_keys():
    option = ConfigOptions.key("m").map_type().default_value({})
    configuration = Configuration.from_dict({"m": "a:1,b:2", "m.b": 3, "m.c": True, "mx": 1})
    assert configuration.get(option) == {"a": "1", "b": "3", "c": "true"}


def test_typed_getters_and_setters_are_pyflinks():
    configuration = (
        Configuration()
        .set_string("s", "text")
        .set_integer("i", 5)
        .set_boolean("b", True)
        .set_float("f", 2.5)
        .set_bytearray("y", bytearray(b"ab"))
    )
    assert configuration.get_string("s", "") == "text"
    assert configuration.get_string("i", "") == "5"
    assert configuration.get_integer("i", 0) == 5
    assert configuration.get_boolean("b", False) is True
    assert configuration.get_float("f", 0.0) == 2.5
    assert configuration.get_float("i", 0.0) == 5.0
    assert configuration.get_bytearray("y", bytearray()) == bytearray(b"ab")
    assert configuration.get_integer("none", 7) == 7
    assert configuration.key_set() == {"s", "i", "b", "f", "y"}


@pytest.mark.parametrize(
    ("setter", "value"),
    [("set_integer", "x"), ("set_boolean", 1), ("set_float", "x"), ("set_bytearray", "x")],
)
def test_typed_setters_refuse_other_types(setter, value):
    with pytest.raises(ConfigurationError, match="option 'k'"):
        getattr(Configuration(), setter)("k", value)


def test_typed_getters_refuse_text_that_does_not_read():
    with pytest.raises(ConfigurationError, match="option 'k' cannot be 'x'"):
        Configuration().set_string("k", "x").get_integer("k", 0)
    with pytest.raises(ConfigurationError, match="use bytes"):
        Configuration().set_string("k", "x").get_bytearray("k", bytearray())


def test_configurations_are_added_copied_and_compared():
    first = Configuration.from_dict({"a": 1})
    second = Configuration(first).add_all(Configuration.from_dict({"b": 2}), "x.")
    assert second.to_dict() == {"a": "1", "x.b": "2"}
    assert first.to_dict() == {"a": "1"}
    assert first == Configuration.from_dict({"a": "1"})
    assert hash(first) == hash(Configuration.from_dict({"a": "1"}))
    assert first != second
    assert pickle.loads(pickle.dumps(second)) == copy.deepcopy(second) == second
    target = {}
    second.add_all_to_dict(target)
    assert target == {"a": 1, "x.b": 2}


def test_a_key_can_be_removed():
    configuration = Configuration.from_dict({"a": 1})
    assert configuration.contains_key("a")
    assert configuration.remove_config("a") is True
    assert configuration.remove_config("a") is False
    assert not configuration.contains_key("a")


@pytest.mark.parametrize("key", ["", None, 5], ids=repr)
def test_a_key_is_a_text(key):
    with pytest.raises(ArgumentTypeError):
        Configuration().set(key, 1)
    with pytest.raises(ArgumentTypeError):
        ConfigOptions.key(key)


def test_none_is_not_a_value():
    with pytest.raises(ConfigurationError, match="remove_config"):
        Configuration().set("a", None)


def test_a_dictionary_is_not_a_configuration():
    with pytest.raises(ArgumentTypeError, match="from_dict"):
        Configuration({"a": 1})
