"""Lookup cache: entries, their lifetime, and eviction order."""

from __future__ import annotations

import pickle

import pytest

from penstock.connectors.base.lookup_cache import LookupCache
from penstock.errors import ArgumentError, ArgumentTypeError


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_an_answer_is_known_until_its_time_is_over():
    clock = Clock()
    cache = LookupCache(ttl=10, clock=clock)
    cache.put_all({"a": 1})
    clock.now = 9.9
    assert cache.get_all(["a"]) == ({"a": 1}, [])
    clock.now = 10
    assert cache.get_all(["a"]) == ({}, ["a"])


def test_being_asked_for_does_not_make_an_answer_younger():
    clock = Clock()
    cache = LookupCache(ttl=10, clock=clock)
    cache.put_all({"a": 1})
    for clock.now in range(10):
        assert cache.get_all(["a"])[0]
    clock.now = 10
    assert cache.get_all(["a"]) == ({}, ["a"])


def test_the_key_that_was_not_asked_for_longest_makes_room():
    cache = LookupCache(max_rows=2, ttl=None)
    cache.put_all({"a": 1, "b": 2})
    cache.get_all(["a"])
    cache.put_all({"c": 3})
    assert cache.get_all(["a", "b", "c"]) == ({"a": 1, "c": 3}, ["b"])


def test_missing_keys_are_cached_with_their_own_ttl():
    clock = Clock()
    cache = LookupCache(ttl=10, missing_ttl=1, clock=clock)
    cache.put_all({"a": None, "b": 2})
    assert cache.get_all(["a"]) == ({"a": None}, [])
    clock.now = 1
    assert cache.get_all(["a", "b"]) == ({"b": 2}, ["a"])


def test_missing_keys_are_asked_for_every_time_if_they_are_not_to_be_kept():
    cache = LookupCache(caches_missing=False)
    cache.put_all({"a": 1})
    cache.put_all({"a": None})
    assert cache.get_all(["a"]) == ({}, ["a"])


def test_a_key_is_asked_for_once_however_often_it_comes():
    assert LookupCache().get_all(["a", "b", "a"]) == ({}, ["a", "b"])


def test_a_cache_of_no_rows_keeps_nothing():
    cache = LookupCache(max_rows=0)
    cache.put_all({"a": 1})
    assert len(cache) == 0


def test_a_cache_arrives_empty_in_a_task():
    cache = LookupCache(max_rows=7)
    cache.put_all({"a": 1})
    arrived = pickle.loads(pickle.dumps(cache))
    assert (len(arrived), arrived.max_rows, len(cache)) == (0, 7, 1)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"max_rows": -1}, ArgumentError, "negative"),
        ({"max_rows": 1.5}, ArgumentTypeError, "not an integer"),
        ({"ttl": 0}, ArgumentError, "must be positive"),
        ({"ttl": "1 min"}, ArgumentTypeError, "seconds"),
        ({"missing_ttl": -1}, ArgumentError, "missing_ttl"),
    ],
)
def test_arguments_are_checked_when_they_are_given(arguments, error, message):
    with pytest.raises(error, match=message):
        LookupCache(**arguments)
