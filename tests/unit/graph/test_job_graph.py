"""Chains: when operators share a vertex, and what it is called."""

from __future__ import annotations

import json

import pytest

from penstock.graph.compiler import compile_program, execution_plan_json
from penstock.graph.partitioning import Forward, Rebalance
from tests.unit.graph.builder import (
    SHAPES,
    key_by,
    operator,
    partition,
    settings,
    side,
    sink,
    source,
    union,
)


def chains(*roots, **options):
    return [
        vertex.name for vertex in compile_program(roots, settings(**options)).job_graph.vertices
    ]


NUMBERS = "Source: numbers"


@pytest.mark.parametrize(
    ("target", "options", "chained"),
    [
        pytest.param(lambda s: operator("m", s), {}, True, id="plain"),
        pytest.param(lambda s: operator("m", partition(s, Forward())), {}, True, id="forward"),
        pytest.param(lambda s: operator("m", side(s, "x")), {}, True, id="side output"),
        pytest.param(lambda s: operator("m", union(s)), {}, True, id="union of one"),
        pytest.param(lambda s: operator("m", key_by(s)), {}, False, id="key by"),
        pytest.param(
            lambda s: operator("m", key_by(s)), {"parallelism": 1}, False, id="key by, one subtask"
        ),
        pytest.param(lambda s: operator("m", partition(s, Rebalance())), {}, False, id="rebalance"),
        pytest.param(lambda s: operator("m", s, parallelism=3), {}, False, id="other parallelism"),
        pytest.param(
            lambda s: operator("m", s, max_parallelism=64), {}, False, id="other max parallelism"
        ),
        pytest.param(
            lambda s: operator("m", s, slot_sharing_group="x"),
            {},
            False,
            id="other slot sharing group",
        ),
        pytest.param(lambda s: operator("m", union(s, s)), {}, False, id="two edges, one input"),
        pytest.param(lambda s: operator("m", s, s), {}, False, id="two inputs"),
        pytest.param(lambda s: operator("m", s, chaining="HEAD"), {}, False, id="target is a head"),
        pytest.param(lambda s: operator("m", s, chaining="NEVER"), {}, False, id="target never"),
        pytest.param(
            lambda s: operator("m", s), {"chaining_enabled": False}, False, id="disabled for all"
        ),
    ],
)
def test_when_an_operator_joins_the_chain_of_its_input(target, options, chained) -> None:
    expected = [f"{NUMBERS} -> m"] if chained else [NUMBERS, "m"]
    assert chains(target(source()), **options) == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("ALWAYS", [f"{NUMBERS} -> m -> n"]),
        ("HEAD", [NUMBERS, "m -> n"]),
        ("NEVER", [NUMBERS, "m", "n"]),
    ],
)
def test_chaining_strategy_applies_to_both_sides(strategy, expected) -> None:
    assert chains(operator("n", operator("m", source(), chaining=strategy))) == expected


def test_a_chain_is_a_tree_and_its_name_shows_it() -> None:
    parsed = operator("parse", source())
    left, right = operator("left", parsed), operator("right", parsed)
    roots = sink("a", left), sink("b", right), sink("c", side(right, "late"))
    (vertex,) = compile_program(roots, settings()).job_graph.vertices
    assert vertex.name == f"{NUMBERS} -> parse -> (left -> Sink: a, right -> (Sink: b, Sink: c))"
    assert [
        (node.name, [(output.target, output.side_tag) for output in node.outputs])
        for node in vertex.operators
    ] == [
        (NUMBERS, [(1, None)]),
        ("parse", [(2, None), (4, None)]),
        ("left", [(3, None)]),
        ("Sink: a", []),
        ("right", [(5, None), (6, "late")]),
        ("Sink: b", []),
        ("Sink: c", []),
    ]


def test_job_edge_has_the_sending_operator_of_the_chain() -> None:
    mapped = operator("m", source())
    counted = operator("count", key_by(side(mapped, "x")))
    graph = compile_program([sink("s", mapped), counted], settings()).job_graph
    (edge,) = graph.edges
    sender = graph.vertex(edge.source_vertex)
    assert sender.operators[edge.source_operator].name == "m"
    assert graph.vertex(edge.target_vertex).name == "count"
    assert (edge.side_tag, edge.input_index) == ("x", 0)


def test_a_vertex_has_the_id_of_its_head() -> None:
    plans = compile_program(*SHAPES["keyed_job"]())
    assert [vertex.id for vertex in plans.job_graph.vertices] == [
        plans.stream_graph.node(1).operator_id,
        plans.stream_graph.node(3).operator_id,
    ]


def test_a_chain_deeper_than_the_python_stack_is_named() -> None:
    stream = source()
    for _ in range(3000):
        stream = operator("m", stream)
    assert chains(stream) == [NUMBERS + " -> m" * 3000]


def test_the_execution_plan_is_the_one_that_flinks_visualizer_reads() -> None:
    mapped = operator("m", source(), description="doubles")
    plans = compile_program([sink("s", key_by(mapped), parallelism=1)], settings())
    assert json.loads(execution_plan_json(plans.stream_graph)) == {
        "nodes": [
            {
                "id": 1,
                "type": "Source: numbers",
                "pact": "Data Source",
                "contents": "Source: numbers",
                "parallelism": 2,
            },
            {
                "id": 2,
                "type": "m",
                "pact": "Operator",
                "contents": "doubles",
                "parallelism": 2,
                "predecessors": [{"id": 1, "ship_strategy": "FORWARD", "side": "second"}],
            },
            {
                "id": 3,
                "type": "Sink: s",
                "pact": "Data Sink",
                "contents": "Sink: s",
                "parallelism": 1,
                "predecessors": [{"id": 2, "ship_strategy": "HASH", "side": "second"}],
            },
        ]
    }
