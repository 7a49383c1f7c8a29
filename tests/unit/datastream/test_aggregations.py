"""sum, min, max, min_by and max_by over fields of all kinds of elements."""

from __future__ import annotations

import copy
import functools
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import Row
from penstock.datastream._aggregations import (
    MaxByReduce,
    MaxReduce,
    MinByReduce,
    MinReduce,
    SumReduce,
    TupleProjection,
)
from penstock.errors import PenstockError


class Point(NamedTuple):
    x: int
    y: int


FIRST, SECOND = ("a", 3), ("b", 2)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        pytest.param(SumReduce, ("a", 5), id="sum keeps the first element's other fields"),
        pytest.param(MinReduce, ("a", 2), id="min keeps the first element's other fields"),
        pytest.param(MaxReduce, ("a", 3), id="max keeps the first element's other fields"),
        pytest.param(MinByReduce, ("b", 2), id="min_by keeps the whole element"),
        pytest.param(MaxByReduce, ("a", 3), id="max_by keeps the whole element"),
    ],
)
def test_aggregated_fields_of_a_tuple(function, expected):
    assert function(1).reduce(FIRST, SECOND) == expected


@pytest.mark.parametrize(
    ("first", "second", "position", "total"),
    [
        pytest.param(1, 2, 0, 3, id="a number"),
        pytest.param("a", "b", 0, "ab", id="text is a plain value"),
        pytest.param((1, "a"), (2, "b"), 0, (3, "a"), id="a tuple"),
        pytest.param([1, "a"], [2, "b"], 0, [3, "a"], id="a list"),
        pytest.param({"n": 1, "s": "a"}, {"n": 2, "s": "b"}, "n", {"n": 3, "s": "a"}, id="a dict"),
        pytest.param(Row(n=1, s="a"), Row(n=2, s="b"), "n", Row(n=3, s="a"), id="a row by name"),
        pytest.param(Row(1, "a"), Row(2, "b"), 0, Row(3, "a"), id="a row by index"),
        pytest.param(Point(1, 5), Point(2, 6), "y", Point(1, 11), id="a named tuple by name"),
        pytest.param(Point(1, 5), Point(2, 6), 0, Point(3, 5), id="a named tuple by index"),
    ],
)
def test_sums_over_all_kinds_of_elements_leave_their_arguments_alone(
    first, second, position, total
):
    before = copy.deepcopy((first, second))
    result = SumReduce(position).reduce(first, second)
    assert result == total
    assert type(result) is type(first)
    assert (first, second) == before


@pytest.mark.parametrize(
    ("element", "position"),
    [
        pytest.param(1, 1, id="field 1 of a number"),
        pytest.param("a", "n", id="a name in text"),
        pytest.param((1, 2), "n", id="a name in a tuple"),
    ],
)
def test_missing_field_is_named_in_the_error(element, position):
    with pytest.raises(PenstockError, match=f"{position}"):
        SumReduce(position).reduce(element, element)


@given(st.lists(st.tuples(st.text(max_size=2), st.integers()), min_size=1))
def test_folding_agrees_with_pythons_own_functions(elements):
    def fold(function):
        return functools.reduce(function(1).reduce, elements)

    numbers = [number for _, number in elements]
    first = elements[0][0]
    assert fold(SumReduce) == (first, sum(numbers))
    assert fold(MinReduce) == (first, min(numbers))
    assert fold(MaxReduce) == (first, max(numbers))
    # Python's min and max keep the first among equals too.
    assert fold(MinByReduce) == min(elements, key=lambda element: element[1])
    assert fold(MaxByReduce) == max(elements, key=lambda element: element[1])


@pytest.mark.parametrize(
    ("method", "kind", "name"),
    [
        ("sum", SumReduce, "Sum"),
        ("min", MinReduce, "Min"),
        ("max", MaxReduce, "Max"),
        ("min_by", MinByReduce, "MinBy"),
        ("max_by", MaxByReduce, "MaxBy"),
    ],
)
@pytest.mark.parametrize("arguments", [(), (2,), ("n",)], ids=["nothing", "index", "name"])
def test_the_methods_take_an_index_a_name_or_nothing(stream, method, kind, name, arguments):
    operator = getattr(stream.key_by(abs), method)(*arguments).transformation
    assert operator.name == name
    assert type(operator.spec.function) is kind
    assert operator.spec.function.position == (arguments[0] if arguments else 0)
    assert operator.spec.emit_updates


def test_a_projection_picks_fields_in_order():
    assert TupleProjection((2, 0, 2))(("a", "b", "c")) == ("c", "a", "c")
