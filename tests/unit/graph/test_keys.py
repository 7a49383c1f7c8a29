"""Lists and bytearrays as keys."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import Row
from penstock.errors import ArgumentTypeError
from penstock.graph.key_groups import holds_nan, key_group_of, stable_hash
from penstock.graph.keys import ListKey, as_key, as_keys
from penstock.runtime.state.rocksdb import key_codec

items = st.recursive(
    st.none() | st.integers() | st.text() | st.binary() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple),
    max_leaves=12,
)


@given(st.lists(items, max_size=4), st.lists(items, max_size=4))
def test_lists_are_one_key_exactly_if_their_items_are_equal(one, other):
    first, second = as_key(one), as_key(other)
    assert (first == second) == (one == other)
    if one == other:
        assert hash(first) == hash(second)
        assert stable_hash(first) == stable_hash(second)
    assert (key_codec.encode(first) == key_codec.encode(second)) == (one == other)


@given(st.lists(items, max_size=4))
def test_a_list_comes_back_from_pickles_and_from_the_database(key):
    found = as_key(key)
    assert pickle.loads(pickle.dumps(found, 5)) == found
    encoded = key_codec.encode(found)
    assert key_codec.skip(encoded, 0) == len(encoded)
    if key_codec.is_exact(found):
        decoded = key_codec.decode(encoded)
        assert decoded == found
        assert type(decoded) is ListKey


def test_list_key_differs_from_tuple_key():
    assert as_key([1]) != as_key((1,))
    assert key_codec.encode(as_key([1])) != key_codec.encode((1,))


def test_a_key_stays_as_it_is_when_the_record_changes():
    inner = ["a"]
    record = ("x", inner)
    key = as_key(record)
    inner.append("b")
    assert key == ("x", ["a"])


def test_nested_lists_become_keys():
    key = as_key(Row(a=[1, [2]], b=bytearray(b"x")))
    assert key == Row(a=[1, [2]], b=b"x")
    assert hash(key) == hash(as_key(Row(a=[1, [2]], b=b"x")))
    assert as_key(bytearray(b"ab")) == b"ab"


def test_nan_is_found_inside_of_lists():
    assert holds_nan(as_key(["a", [float("nan")]]))
    assert not holds_nan(as_key(["a", [1.5]]))


@pytest.mark.parametrize("key", [{"a": 1}, {1, 2}, ["a", {"b": 1}], ("a", [{1}])], ids=repr)
def test_dictionary_and_set_keys_are_rejected(key):
    with pytest.raises(ArgumentTypeError, match=f"keys of type {type(key).__name__}"):
        as_keys(["fine", key])


def test_the_key_group_is_the_same_in_every_process():
    program = (
        "from penstock.graph.key_groups import key_group_of; from penstock.graph.keys import as_key;"
        "print([key_group_of(as_key(key), 128) for key in (['a', 'b'], ('a', ['b']), [b'x', 1.5])])"
    )
    environments = ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2"})
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": ":".join(sys.path), **environment},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for environment in environments
    }
    keys = (["a", "b"], ("a", ["b"]), [b"x", 1.5])
    assert printed == {f"{[key_group_of(as_key(key), 128) for key in keys]}\n"}
