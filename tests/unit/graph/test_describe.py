"""What plans show of users' functions and types."""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass

import pytest

from penstock.graph.describe import describe, type_name
from penstock.graph.operator_specs import MapSpec, WindowSpec
from penstock.graph.partitioning import Custom, Forward
from tests.unit.graph.builder import Doubler, first, modulo


class Colour(enum.IntEnum):
    RED = 1


@dataclass
class Shown:
    secret: str


class WithText:
    def __repr__(self) -> str:
        return "ROW<INT>"


class WithAddress:
    def __str__(self) -> str:
        return f"List({object()!r})"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, None, id="none"),
        pytest.param(True, True, id="bool"),
        pytest.param(1.5, 1.5, id="float"),
        pytest.param(float("inf"), "inf", id="infinity is not JSON"),
        pytest.param(Colour.RED, "RED", id="enum"),
        pytest.param(first, "first", id="function"),
        pytest.param(str.upper, "str.upper", id="method"),
        pytest.param(Doubler().map, "Doubler.map", id="bound method"),
        pytest.param(functools.partial(modulo, 3), "partial(modulo)", id="partial"),
        pytest.param(Doubler(), "Doubler", id="object"),
        pytest.param(Doubler, "Doubler", id="class"),
        pytest.param(Shown("x"), "Shown", id="dataclasses of users keep their fields"),
        pytest.param({"a": 1}, "dict", id="dict"),
        pytest.param((first, 1), ["first", 1], id="tuple"),
        pytest.param(MapSpec(Doubler()), {"type": "Map", "function": "Doubler"}, id="spec"),
        pytest.param(Forward(), {"type": "FORWARD"}, id="partitioning"),
        pytest.param(
            Custom(modulo, first),
            {"type": "CUSTOM", "partitioner": "modulo", "key_selector": "first"},
            id="partitioning with functions",
        ),
    ],
)
def test_values_in_specs_become_json(value, expected) -> None:
    assert describe(value) == expected


def test_settings_of_a_spec_are_shown() -> None:
    shown = describe(WindowSpec(Doubler(), None, late_tag="late", allowed_lateness=5))
    assert (shown["type"], shown["late_tag"], shown["allowed_lateness"]) == ("Window", "late", 5)


@pytest.mark.parametrize(
    ("output_type", "expected"),
    [
        (None, None),
        ("INT", "INT"),
        (int, "int"),
        (WithText, "WithText"),
        (WithText(), "ROW<INT>"),
        (WithAddress(), "WithAddress"),
        (Doubler(), "Doubler"),
    ],
)
def test_types_are_called_by_their_own_text_if_it_has_no_address(output_type, expected) -> None:
    assert type_name(output_type) == expected
