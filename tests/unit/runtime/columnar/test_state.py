"""The cache in front of state tables loses nothing when it evicts entries."""

from __future__ import annotations

import random

import pytest

from penstock.runtime.columnar.state import KeyedCache, read_many
from penstock.runtime.state.backends import BACKENDS


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("namespaced", [False, True])
def test_a_cache_over_its_bound_answers_as_a_dictionary_does(
    backend: str, namespaced: bool
) -> None:
    state = BACKENDS[backend].create_temporary(lambda: 0, "operator", 128)
    table = state.table("entries", namespaced=namespaced)
    cache = KeyedCache(table, bound=20)
    expected: dict[object, tuple[int, ...]] = {}
    rng = random.Random(3)
    for step in range(2_000):
        number = rng.randrange(60)
        key = (number % 7, number) if namespaced else number
        match rng.randrange(4):
            case 0:
                cache.put(key, (step,))
                expected[key] = (step,)
            case 1:
                cache.remove(key)
                expected.pop(key, None)
            case 2:
                assert cache.get(key) == expected.get(key)
            case _:
                keys = [key, *list(expected)[:5]]
                assert cache.get_many(keys) == [expected.get(each) for each in keys]
        cache.trim_cache()
        assert len(cache) <= 26
        if step % 500 == 499:
            cache.flush()
            state.snapshot()
            assert dict(table.items()) == expected
    assert dict(cache.items()) == expected
    keys = list(expected)
    assert read_many(table, keys) == [expected[key] for key in keys]
