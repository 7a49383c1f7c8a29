"""Levels, slots, gates and local edges."""

from __future__ import annotations

import pickle

import pytest

from penstock.graph.compiler import compile_program
from penstock.graph.deploy import deploy
from penstock.graph.partitioning import Rebalance
from tests.unit.graph.builder import (
    SHAPES,
    key_by,
    keyed,
    operator,
    partition,
    settings,
    sink,
    source,
    union,
)


def plan(*roots, **options):
    return compile_program(roots, settings(**options)).stage_plan


def levels(*roots, **options):
    return {vertex.name: vertex.level for vertex in plan(*roots, **options).vertices}


def test_sources_alone_are_on_level_0() -> None:
    numbers = source("a")
    early = operator("early", numbers, chaining="HEAD")
    late = keyed("late", keyed("k", source("b")))
    assert levels(early, late) == {"Source: a": 0, "early": 1, "Source: b": 0, "k": 1, "late": 2}


def test_forward_edges_after_level_0_cost_no_level() -> None:
    stream = keyed("k", source())
    for at in range(3):
        stream = operator(f"m{at}", stream, chaining="HEAD")
    found = plan(stream)
    assert [vertex.level for vertex in found.vertices] == [0, 1, 1, 1, 1]
    assert [edge.local for vertex in found.vertices for edge in vertex.inputs] == [False] + [
        True
    ] * 3


def test_a_forward_edge_is_not_local_if_another_input_lifts_its_target() -> None:
    one = keyed("one", source())
    two = keyed("two", one)
    both = operator("both", one, two)
    found = {vertex.name: vertex for vertex in plan(both).vertices}
    assert found["both"].level == 2
    assert [(edge.partitioning.NAME, edge.local) for edge in found["both"].inputs] == [
        ("FORWARD", False),
        ("FORWARD", True),
    ]
    assert [(edge.target_level, edge.local) for edge in found["one"].outputs] == [
        (2, False),
        (2, False),
    ]


def test_an_edge_may_skip_levels() -> None:
    found = compile_program(*SHAPES["skip_level_edges"]()).stage_plan
    spans = {
        (vertex.level, output.target_level)
        for vertex in found.vertices
        for output in vertex.outputs
    }
    assert (0, 3) in spans


def test_slots_are_the_sum_on_level_0_and_the_maximum_later() -> None:
    united = union(source("a"), source("b", parallelism=3), source("c", parallelism=1))
    five = operator("five", key_by(united), parallelism=5)
    two = operator("two", key_by(united))
    found = plan(five, two, parallelism=2)
    assert [level.slots for level in found.levels] == [6, 5]
    assert [vertex.slot_offset for vertex in found.vertices if vertex.is_source] == [0, 2, 5]
    assert [found.hosted(0, slot) for slot in range(6)] == [
        ((0, 0),),
        ((0, 1),),
        ((1, 0),),
        ((1, 1),),
        ((1, 2),),
        ((2, 0),),
    ]
    assert [found.hosted(1, slot) for slot in (0, 1, 2, 4)] == [
        ((3, 0), (4, 0)),
        ((3, 1), (4, 1)),
        ((3, 2),),
        ((3, 4),),
    ]


def test_every_edge_of_a_vertex_has_its_own_gate() -> None:
    numbers, one = source("a"), source("b", parallelism=1)
    both = operator("both", union(numbers, one, numbers), partition(one, Rebalance()))
    vertex = plan(both).vertices[-1]
    assert [
        (e.gate, e.source_vertex, e.input_index, e.source_parallelism) for e in vertex.inputs
    ] == [
        (0, 0, 0, 2),
        (1, 1, 0, 1),
        (2, 0, 0, 2),
        (3, 1, 1, 1),
    ]


def test_stage_outputs_have_routing_information() -> None:
    counted = keyed("count", operator("m", source()), parallelism=3, max_parallelism=12)
    output = plan(counted).vertices[0].outputs[0]
    assert (output.operator, output.target_vertex, output.target_gate) == (1, 1, 0)
    assert (output.target_parallelism, output.target_max_parallelism) == (3, 12)


def test_a_vertex_is_keyed_if_an_input_of_its_chain_is() -> None:
    found = plan(sink("s", keyed("k", source())))
    assert [vertex.is_keyed for vertex in found.vertices] == [False, True]


def test_explain_is_text_for_people() -> None:
    one = operator("m", source("in", parallelism=1), parallelism=1)
    assert plan(sink("out", keyed("count", one))).explain().splitlines() == [
        "job (STREAMING): 2 levels",
        "",
        "level 0: 1 slot",
        "  [0] Source: in -> m  x1",
        "      HASH -> [1] gate 0, from 'm', exchange to level 1",
        "",
        "level 1: 2 slots",
        "  [1] count -> Sink: out  x2",
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_plans_survive_pickling(shape: str) -> None:
    found = compile_program(*SHAPES[shape]()).stage_plan
    assert pickle.loads(pickle.dumps(found)).to_json() == found.to_json()


def test_a_vertex_has_the_buffer_timeout_of_those_of_its_operators_that_send() -> None:
    """A timeout of an operator that sends to its own chain only is of no account."""
    inner = operator("inner", source(), buffer_timeout=5)
    sender = operator("sender", inner, buffer_timeout=20)
    after = keyed("after", sender)
    deployed = {vertex.name: vertex for vertex in deploy(plan(sink("out", after)))}
    timeouts = {name: vertex.buffer_timeout_ms for name, vertex in deployed.items()}
    assert timeouts == {"Source: numbers -> inner -> sender": 20, "after -> Sink: out": None}
