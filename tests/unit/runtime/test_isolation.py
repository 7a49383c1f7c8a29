"""What was emitted does not change when user code goes on with its own objects."""

from __future__ import annotations

import threading

import pytest

from penstock.common import Row
from penstock.runtime.isolation import isolate_all, isolated


@pytest.mark.parametrize(
    "value", [1, "a", 2.5, None, (), (1, "a", None), ((1, 2), ("a", (3,)))], ids=repr
)
def test_immutable_values_are_not_copied(value):
    assert isolated(value) is value


@pytest.mark.parametrize("value", [[1], {"a": 1}, (1, [2]), (1, (2, [3])), Row(1, 2)], ids=repr)
def test_values_that_can_change_are_copied(value):
    copy = isolated(value)
    assert copy == value
    assert copy is not value
    assert isolate_all([value])[0] is not value


def test_unpicklable_value_is_passed_on_uncopied():
    value = {"lock": threading.Lock()}
    assert isolated(value) is value
    assert isolate_all([value])[0] is value
