"""What holds for the plans of any program."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass

from hypothesis import given as hypothesis_given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from penstock.graph.compiler import compile_program
from penstock.graph.partitioning import Broadcast, Forward, Hash, Rebalance, Rescale
from penstock.graph.transformations import OperatorTransformation
from tests.builders.examples import examples
from tests.unit.graph.builder import first, operator, partition, settings, side, source, union


def given(*strategies):
    """Like Hypothesis' own, without its clock: these graphs grow with the example, not with time."""

    def decorate(test):
        return hypothesis_settings(deadline=None, max_examples=examples(60))(
            hypothesis_given(*strategies)(test)
        )

    return decorate


HOWS = {"hash": Hash(first), "rebalance": Rebalance(), "rescale": Rescale(), "all": Broadcast()}


@dataclass(frozen=True)
class Feed:
    """One branch of one input: which step it reads, how, and under which tag."""

    step: int
    how: str | None
    tag: str | None


@dataclass(frozen=True)
class Step:
    """An operator of a random program; without inputs it is a source."""

    inputs: tuple[tuple[Feed, ...], ...]
    parallelism: int | None
    chaining: str
    group: str | None


@st.composite
def recipes(draw) -> tuple[Step, ...]:
    steps: list[Step] = []
    for at in range(draw(st.integers(1, 12))):
        feed = st.builds(
            Feed,
            step=st.integers(0, max(at - 1, 0)),
            how=st.sampled_from([None, None, *HOWS]),
            tag=st.sampled_from([None, None, "x", "y"]),
        )
        branches = st.lists(feed, min_size=1, max_size=3).map(tuple)
        inputs = () if at == 0 else draw(st.lists(branches, max_size=2).map(tuple))
        steps.append(
            Step(
                inputs,
                draw(st.sampled_from([None, None, None, 1, 3])),
                draw(st.sampled_from(["ALWAYS", "ALWAYS", "ALWAYS", "HEAD", "NEVER"])),
                draw(st.sampled_from([None, None, None, "g"])),
            )
        )
    return tuple(steps)


def build(recipe: tuple[Step, ...], name: str = "step", seed: int | None = None):
    """Make the transformations of a recipe; with a seed, in another order and with strangers in between."""
    order = random.Random(seed)
    built: dict[int, OperatorTransformation] = {}

    def make(at: int) -> OperatorTransformation:
        if at in built:
            return built[at]
        if seed is not None:
            for _ in range(order.randrange(3)):
                source("stranger")
        step = recipe[at]
        needed = [feed.step for branches in step.inputs for feed in branches]
        for earlier in order.sample(needed, len(needed)) if seed is not None else needed:
            make(earlier)
        options = {
            "parallelism": step.parallelism,
            "chaining": step.chaining,
            "slot_sharing_group": step.group,
        }
        if not step.inputs:
            built[at] = source(f"{name}{at}", **options)
        else:
            built[at] = operator(
                f"{name}{at}", *(union(*map(branch, feeds)) for feeds in step.inputs), **options
            )
        return built[at]

    def branch(feed: Feed):
        stream = make(feed.step)
        if feed.tag is not None:
            stream = side(stream, feed.tag)
        return stream if feed.how is None else partition(stream, HOWS[feed.how])

    places = list(range(len(recipe)))
    if seed is not None:
        order.shuffle(places)
    for at in places:
        make(at)
    return [built[at] for at in range(len(recipe))]


def compiled(recipe: tuple[Step, ...]):
    return compile_program(build(recipe), settings())


@given(recipes())
def test_every_feed_of_the_program_is_one_edge(recipe) -> None:
    graph = compiled(recipe).stream_graph
    name = {node.id: node.name for node in graph.nodes}
    found = Counter(
        (name[edge.source_id], name[edge.target_id], edge.input_index, edge.side_tag)
        for edge in graph.edges
    )
    shown = [f"step{at}" if step.inputs else f"Source: step{at}" for at, step in enumerate(recipe)]
    assert found == Counter(
        (shown[feed.step], shown[at], index, feed.tag)
        for at, step in enumerate(recipe)
        for index, feeds in enumerate(step.inputs)
        for feed in feeds
    )


@given(recipes())
def test_every_node_is_in_exactly_one_chain(recipe) -> None:
    plans = compiled(recipe)
    chained = [op.node_id for vertex in plans.job_graph.vertices for op in vertex.operators]
    assert sorted(chained) == [node.id for node in plans.stream_graph.nodes]


@given(recipes())
def test_every_edge_is_inside_a_chain_or_between_chains(recipe) -> None:
    plans = compiled(recipe)
    inside = Counter(
        (op.node_id, vertex.operators[output.target].node_id, output.side_tag)
        for vertex in plans.job_graph.vertices
        for op in vertex.operators
        for output in op.outputs
    )
    between = Counter(
        (
            plans.job_graph.vertex(edge.source_vertex).operators[edge.source_operator].node_id,
            plans.job_graph.vertex(edge.target_vertex).operators[0].node_id,
            edge.side_tag,
        )
        for edge in plans.job_graph.edges
    )
    edges = plans.stream_graph.edges
    assert inside + between == Counter((e.source_id, e.target_id, e.side_tag) for e in edges)
    assert len({edge.edge_id for edge in plans.job_graph.edges}) == between.total()


@given(recipes())
def test_a_chain_is_a_tree_of_operators_that_fit_together(recipe) -> None:
    plans = compiled(recipe)
    for vertex in plans.job_graph.vertices:
        parents = Counter(out.target for op in vertex.operators for out in op.outputs)
        assert parents == Counter(range(1, len(vertex.operators)))
        assert all(out.target > at for at, op in enumerate(vertex.operators) for out in op.outputs)
        for op in vertex.operators:
            node = plans.stream_graph.node(op.node_id)
            assert (node.parallelism, node.max_parallelism, node.slot_sharing_group) == (
                vertex.parallelism,
                vertex.max_parallelism,
                vertex.slot_sharing_group,
            )


@given(recipes())
def test_levels_respect_edges_and_are_as_low_as_they_can_be(recipe) -> None:
    plan = compiled(recipe).stage_plan
    for vertex in plan.vertices:
        assert (vertex.level == 0) == vertex.is_source
        lowest = 0
        for edge in vertex.inputs:
            sender = plan.vertices[edge.source_vertex]
            assert edge.source_vertex < vertex.index
            assert edge.source_parallelism == sender.parallelism
            forward = isinstance(edge.partitioning, Forward)
            assert edge.local == (forward and sender.level == vertex.level)
            assert edge.local or sender.level < vertex.level
            lowest = max(lowest, sender.level + (0 if forward and sender.level else 1))
        assert vertex.level == lowest


@given(recipes())
def test_inputs_and_outputs_are_two_views_of_one_set_of_edges(recipe) -> None:
    plan = compiled(recipe).stage_plan
    received = {
        (edge.source_vertex, vertex.index, edge.gate): (
            edge.input_index,
            edge.partitioning,
            edge.local,
        )
        for vertex in plan.vertices
        for edge in vertex.inputs
    }
    sent = {
        (vertex.index, edge.target_vertex, edge.target_gate): (
            edge.input_index,
            edge.partitioning,
            edge.local,
        )
        for vertex in plan.vertices
        for edge in vertex.outputs
    }
    assert received == sent
    assert len(sent) == sum(len(vertex.outputs) for vertex in plan.vertices)
    for vertex in plan.vertices:
        assert [edge.gate for edge in vertex.inputs] == list(range(len(vertex.inputs)))


@given(recipes())
def test_every_subtask_has_exactly_one_slot(recipe) -> None:
    plan = compiled(recipe).stage_plan
    hosted = [
        (level.index, index, subtask)
        for level in plan.levels
        for slot in range(level.slots)
        for index, subtask in plan.hosted(level.index, slot)
    ]
    assert Counter(hosted) == Counter(
        (vertex.level, vertex.index, subtask)
        for vertex in plan.vertices
        for subtask in range(vertex.parallelism)
    )
    for level in plan.levels:  # and no slot is empty
        assert all(plan.hosted(level.index, slot) for slot in range(level.slots))


@given(recipes(), st.integers(0, 2**16))
def test_ids_do_not_depend_on_names_or_on_the_order_of_creation(recipe, seed) -> None:
    here = compile_program(build(recipe), settings()).stream_graph
    there = compile_program(build(recipe, "other", seed), settings()).stream_graph
    assert [n.operator_id for n in here.nodes] == [n.operator_id for n in there.nodes]
    assert len({node.operator_id for node in here.nodes}) == len(recipe)


@given(recipes())
def test_plans_are_json(recipe) -> None:
    plans = compiled(recipe)
    assert json.loads(json.dumps(plans.to_json())) == plans.to_json()
