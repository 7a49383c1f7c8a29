"""The StreamGraph: virtual steps, defaults, and what is refused."""

from __future__ import annotations

import re

import pytest

from penstock.errors import ArgumentError, ArgumentTypeError, InvalidProgramError
from penstock.graph.operator_specs import KeyedReduceSpec, MapSpec, OperatorSpec, SinkSpec
from penstock.graph.partitioning import (
    Broadcast,
    Forward,
    Global,
    Hash,
    Partitioning,
    Rebalance,
    Rescale,
    Shuffle,
)
from penstock.graph.settings import GraphSettings, default_max_parallelism
from penstock.graph.stream_graph_generator import generate
from penstock.graph.transformations import OperatorTransformation, Transformation
from tests.unit.graph.builder import (
    Doubler,
    Printer,
    first,
    key_by,
    keyed,
    operator,
    partition,
    settings,
    side,
    sink,
    source,
    union,
)


def edges_into(upstream, **options):
    """How an operator over `upstream` is fed: (producer, partitioning, side tag) per edge."""
    graph = generate([operator("target", upstream, **options)], settings())
    return [
        (graph.node(edge.source_id).name, edge.partitioning.NAME, edge.side_tag)
        for edge in graph.edges
        if edge.target_id == graph.nodes[-1].id
    ]


def a(**options):
    return operator("a", source(), **options)


def b(**options):
    return operator("b", source(), **options)


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        pytest.param(a(), [("a", "FORWARD", None)], id="same parallelism"),
        pytest.param(a(parallelism=1), [("a", "REBALANCE", None)], id="other parallelism"),
        pytest.param(key_by(a()), [("a", "HASH", None)], id="key by"),
        pytest.param(
            partition(key_by(a()), Rebalance()),
            [("a", "REBALANCE", None)],
            id="last partitioning wins",
        ),
        pytest.param(
            key_by(partition(a(), Shuffle())), [("a", "HASH", None)], id="key by after shuffle"
        ),
        pytest.param(union(a(), b()), [("a", "FORWARD", None), ("b", "FORWARD", None)], id="union"),
        pytest.param(
            union(union(a(), b()), union(b(parallelism=1))),
            [("a", "FORWARD", None), ("b", "FORWARD", None), ("b", "REBALANCE", None)],
            id="union of unions, each with its own default",
        ),
        pytest.param(
            key_by(union(a(), b())),
            [("a", "HASH", None), ("b", "HASH", None)],
            id="key by after union",
        ),
        pytest.param(
            union(partition(a(), Rescale()), b()),
            [("a", "RESCALE", None), ("b", "FORWARD", None)],
            id="partitioning inside a union stays on its branch",
        ),
        pytest.param(
            partition(union(key_by(a()), b()), Global()),
            [("a", "GLOBAL", None), ("b", "GLOBAL", None)],
            id="partitioning after a union wins on all branches",
        ),
        pytest.param(side(a(), "late"), [("a", "FORWARD", "late")], id="side output"),
        pytest.param(
            key_by(side(a(), "late")), [("a", "HASH", "late")], id="key by after side output"
        ),
        pytest.param(
            side(key_by(a()), "late"), [("a", "HASH", "late")], id="side output after key by"
        ),
        pytest.param(
            side(operator("c", side(a(), "x")), "y"),
            [("c", "FORWARD", "y")],
            id="side of a side's operator",
        ),
        pytest.param(
            union(side(a(), "late"), side(b(), "late")),
            [("a", "FORWARD", "late"), ("b", "FORWARD", "late")],
            id="one tag at two operators",
        ),
        pytest.param(
            side(union(a(), b()), "late"),
            [("a", "FORWARD", "late"), ("b", "FORWARD", "late")],
            id="side output of a union",
        ),
    ],
)
def test_virtual_steps_become_properties_of_edges(upstream, expected) -> None:
    assert edges_into(upstream) == expected


def test_a_stream_united_with_itself_has_two_edges() -> None:
    stream = a()
    assert edges_into(union(stream, stream, union(stream))) == [("a", "FORWARD", None)] * 3


def test_inputs_of_a_two_input_operator_keep_their_index() -> None:
    one, two, three = source("1"), source("2"), source("3")
    graph = generate([operator("join", union(one, two), three)], settings())
    assert [(edge.source_id, edge.input_index) for edge in graph.edges] == [(1, 0), (2, 0), (3, 1)]


def test_nodes_are_numbered_producers_first() -> None:
    shared = operator("shared", source())
    graph = generate([sink("x", operator("later", shared)), sink("y", shared)], settings())
    assert [(node.id, node.name) for node in graph.nodes] == [
        (1, "Source: numbers"),
        (2, "shared"),
        (3, "later"),
        (4, "Sink: x"),
        (5, "Sink: y"),
    ]


def test_prefixes_are_not_doubled() -> None:
    graph = generate([sink("Sink: out", source("Source: in"))], settings())
    assert [node.name for node in graph.nodes] == ["Source: in", "Sink: out"]


def test_operators_without_a_sink_are_in_the_graph_only_if_they_are_passed_in() -> None:
    numbers = source()
    loose, printed = operator("loose", numbers), sink("print", numbers)
    assert "loose" not in [node.name for node in generate([printed], settings()).nodes]
    assert "loose" in [node.name for node in generate([printed, loose], settings()).nodes]


def test_passing_a_transformation_twice_changes_nothing() -> None:
    printed = sink("print", source())
    assert generate([printed, printed], settings()) == generate([printed], settings())


def test_a_program_deeper_than_the_python_stack_is_translated() -> None:
    stream: Transformation = source()
    for _ in range(3000):
        stream = operator("step", key_by(union(stream)))
    assert len(generate([stream], settings()).nodes) == 3001


@pytest.mark.parametrize(
    ("own", "default", "parallelism", "expected"),
    [
        pytest.param(None, None, 2, 128, id="the rule, at least 128"),
        pytest.param(None, None, 100, 256, id="the rule, rounded up"),
        pytest.param(None, 64, 2, 64, id="the environment's"),
        pytest.param(32, 64, 2, 32, id="its own"),
    ],
)
def test_max_parallelism_is_the_operators_else_the_environments_else_the_rule(
    own, default, parallelism, expected
) -> None:
    node = operator("m", source(), parallelism=parallelism, max_parallelism=own)
    graph = generate([node], settings(max_parallelism=default, parallelism=1))
    assert graph.nodes[-1].max_parallelism == expected


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, 128), (85, 128), (86, 256), (170, 256), (171, 256), (172, 512), (30_000, 32768)],
)
def test_the_default_number_of_key_groups(parallelism, expected) -> None:
    assert default_max_parallelism(parallelism) == expected


@pytest.mark.parametrize(
    ("own", "inputs", "expected"),
    [
        pytest.param(None, (None,), "default", id="nothing set"),
        pytest.param(None, ("x",), "x", id="inherited"),
        pytest.param(None, ("x", "x"), "x", id="inputs agree"),
        pytest.param(None, ("x", "y"), "default", id="inputs disagree"),
        pytest.param(None, ("x", None), "default", id="one input in the default group"),
        pytest.param("z", ("x", "y"), "z", id="its own"),
    ],
)
def test_slot_sharing_groups_come_from_the_inputs(own, inputs, expected) -> None:
    sources = [source(str(at), slot_sharing_group=group) for at, group in enumerate(inputs)]
    graph = generate([operator("m", key_by(union(*sources)), slot_sharing_group=own)], settings())
    assert graph.nodes[-1].slot_sharing_group == expected


def test_a_fixed_operator_without_parallelism_has_one_subtask() -> None:
    graph = generate([operator("m", source(), parallelism_fixed=True)], settings(parallelism=4))
    assert [node.parallelism for node in graph.nodes] == [4, 1]


@pytest.mark.parametrize(
    ("mode", "unbounded", "expected"),
    [
        ("STREAMING", True, "STREAMING"),
        ("STREAMING", False, "STREAMING"),
        ("BATCH", False, "BATCH"),
        ("AUTOMATIC", True, "STREAMING"),
        ("AUTOMATIC", False, "BATCH"),
    ],
)
def test_the_runtime_mode_is_resolved(mode, unbounded, expected) -> None:
    stream = union(source("a", unbounded=unbounded), source("b"))
    reduced = operator("r", key_by(stream), spec=KeyedReduceSpec(max), key_selectors=(first,))
    graph = generate([reduced], settings(runtime_mode=mode))
    assert graph.runtime_mode == expected
    # a reduce emits updates in STREAMING only
    assert graph.nodes[-1].spec.emit_updates == (expected == "STREAMING")


def test_batch_mode_refuses_an_unbounded_source() -> None:
    with pytest.raises(InvalidProgramError, match="'Source: x' is unbounded"):
        generate([sink("s", source("x", unbounded=True))], settings(runtime_mode="BATCH"))


def refused_programs():
    numbers = source()
    cyclic = operator("cyclic", numbers)
    cyclic.inputs = (cyclic,)
    yield "no operators", [], "has no operators"
    yield "cycle", [cyclic], "'cyclic' reads from itself"
    yield (
        "forward between parallelisms",
        [operator("m", partition(numbers, Forward()), parallelism=3)],
        "forward partitioning does not allow a change of parallelism",
    )
    yield (
        "uid twice",
        [operator("m", operator("n", numbers, uid="u"), uid="u")],
        "the uid 'u' is used twice",
    )
    yield (
        "uid hash twice",
        [operator("m", operator("n", numbers, uid_hash="0" * 32), uid_hash="0" * 32)],
        "operator id 0{32} is used twice",
    )
    yield (
        "source with an input",
        [operator("m", numbers, kind="source", spec=numbers.spec)],
        "the source 'm' has an input",
    )
    yield (
        "source with a key",
        [source("s", key_selectors=(first,))],
        "the source 's' has an input",
    )
    yield "source without a source spec", [operator("m", kind="source")], "wrong kind, MapSpec"
    yield "operator without an input", [operator("m")], "the operator 'm' has no input"
    yield (
        "sink without an input",
        [operator("s", kind="sink", spec=SinkSpec(Printer()))],
        "the sink 's' has no input",
    )
    yield "after a sink", [operator("m", sink("s", numbers))], "reads from the sink 'Sink: s'"
    yield "unknown kind", [operator("m", numbers, kind="tap")], "unknown kind 'tap'"
    yield "unknown chaining", [operator("m", numbers, chaining="MAYBE")], "strategy 'MAYBE'"
    yield (
        "too few key selectors",
        [operator("m", numbers, numbers, key_selectors=(first,))],
        "2 inputs and 1 key selectors",
    )
    yield "side output of a side output", [side(side(numbers, "x"), "y")], "from a side output"
    yield (
        "side output of a partitioned side output",
        [side(key_by(side(numbers, "x")), "y")],
        "from the side output 'x'",
    )
    yield "empty union", [union()], "has no inputs"
    yield "partitioning without a kind", [partition(numbers, Partitioning())], "has no kind"
    yield "bare transformation", [Transformation("t")], "unsupported transformation"
    yield (
        "parallelism above max parallelism",
        [operator("m", numbers, parallelism=9, max_parallelism=8)],
        "higher than its max parallelism",
    )
    two = [operator("s", numbers, kind="sink", spec=SinkSpec(Printer("/out"))) for _ in "ab"]
    yield "two sinks on one path", two, "two sinks write to '/out'"
    for how in (Rebalance(), Rescale(), Shuffle(), Broadcast()):
        broken = operator("m", partition(numbers, how), key_selectors=(first,))
        yield f"keyed input over {how.NAME}", [broken], "is not partitioned by key"


@pytest.mark.parametrize(
    ("program", "message"),
    [pytest.param(program, message, id=name) for name, program, message in refused_programs()],
)
def test_invalid_program_is_rejected(program, message) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        generate(program, settings())


def test_invalid_forward_error_names_both_sides_and_alternatives() -> None:
    with pytest.raises(InvalidProgramError) as caught:
        generate([operator("m", partition(source(), Forward()), parallelism=3)], settings())
    assert caught.value.detail == "'Source: numbers' has parallelism 2, 'm' has 3"
    assert "rebalance()" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "how", [Rebalance(), Rescale(), Shuffle(), Broadcast(), Global(), Forward(), Hash(first)]
)
def test_one_subtask_owns_all_keys_however_they_arrive(how) -> None:
    target = operator(
        "m", partition(source(parallelism=1), how), key_selectors=(first,), parallelism=1
    )
    assert generate([target], settings()).edges[0].partitioning == how


def test_the_input_beside_a_keyed_one_may_be_broadcast() -> None:
    rules = partition(source("rules"), Broadcast())
    both = operator("m", key_by(source()), rules, key_selectors=(first, None))
    graph = generate([both], settings())
    assert [edge.partitioning.NAME for edge in graph.edges] == ["HASH", "BROADCAST"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"parallelism": 0}, ArgumentError),
        ({"parallelism": "2"}, ArgumentTypeError),
        ({"parallelism": True}, ArgumentTypeError),
        ({"max_parallelism": 32769}, ArgumentError),
        ({"runtime_mode": "FAST"}, ArgumentError),
    ],
)
def test_settings_check_themselves(options, error) -> None:
    with pytest.raises(error):
        GraphSettings(**options)


@pytest.mark.parametrize("wrong", [{"parallelism": 0}, {"max_parallelism": 0}])
def test_an_operators_own_parallelism_is_checked_too(wrong) -> None:
    with pytest.raises(ArgumentError, match="parallelism of 'm'"):
        generate([operator("m", source(), **wrong)], settings())


class TestOperatorIds:
    def ids(self, *roots):
        return {node.name: node.operator_id for node in generate(roots, settings()).nodes}

    def test_a_uid_alone_decides_the_id(self) -> None:
        one = self.ids(operator("m", source(), uid="u"))["m"]
        two = self.ids(keyed("m", operator("n", source()), uid="u"))["m"]
        assert one == two
        assert one != self.ids(operator("m", source(), uid="v"))["m"]
        assert re.fullmatch(r"[0-9a-f]{32}", one)

    def test_a_uid_hash_is_used_as_it_is(self) -> None:
        wanted = "0123456789abcdef" * 2
        assert self.ids(operator("m", source(), uid="u", uid_hash=wanted))["m"] == wanted

    @pytest.mark.parametrize("wrong", ["", "xyz", "0" * 31, "g" * 32, "0" * 32 + "\n"])
    def test_a_uid_hash_that_is_none_is_refused(self, wrong) -> None:
        with pytest.raises(ArgumentError, match="32 hexadecimal digits"):
            generate([operator("m", source(), uid_hash=wrong)], settings())

    def test_names_settings_and_partitioning_have_no_part_in_ids(self) -> None:
        plain = generate([operator("m", source())], settings())
        dressed = generate(
            [
                operator(
                    "other",
                    partition(source("else", parallelism=1), Shuffle()),
                    parallelism=3,
                    max_parallelism=64,
                    chaining="NEVER",
                    slot_sharing_group="x",
                    spec=MapSpec(first),
                )
            ],
            settings(chaining_enabled=False),
        )
        assert [n.operator_id for n in plain.nodes] == [n.operator_id for n in dressed.nodes]

    def test_siblings_have_different_ids(self) -> None:
        numbers = source()
        maps = [operator(f"m{at}", numbers) for at in range(5)]
        assert len(set(self.ids(*maps).values())) == 6

    def test_a_uid_on_one_sibling_leaves_the_other_alone(self) -> None:
        numbers = source()
        before = self.ids(operator("a", numbers), operator("b", numbers))
        after = self.ids(operator("a", numbers, uid="u"), operator("b", numbers))
        assert before["a"] != after["a"]
        assert before["b"] == after["b"]

    def test_another_kind_of_operator_beside_it_leaves_an_operator_alone(self) -> None:
        numbers = source()
        before = self.ids(operator("b", numbers))
        after = self.ids(
            sink("s", numbers), operator("n", numbers, spec=OperatorSpec()), operator("b", numbers)
        )
        assert before["b"] == after["b"]

    @pytest.mark.parametrize(
        "rewired",
        [
            pytest.param(lambda one, two: operator("m", two), id="other input"),
            pytest.param(lambda one, two: operator("m", one, two), id="second input"),
            pytest.param(lambda one, two: operator("m", union(one, two)), id="united"),
            pytest.param(lambda one, two: operator("m", side(one, "x")), id="side output"),
            pytest.param(
                lambda one, two: OperatorTransformation(
                    "m", (one,), kind="sink", spec=MapSpec(Doubler())
                ),
                id="other kind",
            ),
        ],
    )
    def test_another_position_is_another_id(self, rewired) -> None:
        one, two = source("1"), source("2")
        here = self.ids(one, two, operator("m", one))["m"]
        assert here not in self.ids(one, two, rewired(one, two)).values()
