"""Interval joins: rule 17 on the operator, against a naive model, and what stays in the state."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import RecordError
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import IntervalJoinSpec
from penstock.runtime.operators.two_inputs.interval_join import IntervalJoinOperator
from penstock.testing import OperatorHarness
from tests.builders.examples import examples

MAX = 2**63 - 1
LEFT, RIGHT = 0, 1


class Pairs:
    """Emits both elements with the timestamps that the context shows."""

    def process_element(self, left, right, ctx):
        assert ctx.get_timestamp() == max(ctx.get_left_timestamp(), ctx.get_right_timestamp())
        yield left, right, ctx.get_left_timestamp(), ctx.get_right_timestamp()


def harness_of(lower, upper, function=None, snapshots=(), **tags):
    spec = IntervalJoinSpec(function or Pairs(), lower, upper, **tags)
    return OperatorHarness(
        spec, key_selector=lambda value: value.rstrip("0123456789"), snapshots=snapshots
    )


def buffered(harness, side):
    """The (key, timestamp) entries that a side keeps, looked up in the state itself, which learns of them at a barrier."""
    harness.operator.barrier()
    table = harness.keyed_state.table(f"panes/interval-join-{side}", namespaced=True)
    return sorted(entry for entry, _ in table.items())


BOUNDS = [
    pytest.param(-2, 2, id="around"),
    pytest.param(1, 3, id="right after left"),
    pytest.param(-3, -1, id="right before left"),
    pytest.param(0, 0, id="at once"),
    pytest.param(-1, 0, id="up to now"),
    pytest.param(0, 2, id="from now"),
]


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
@pytest.mark.parametrize("first", [LEFT, RIGHT], ids=["left comes first", "right comes first"])
def test_rule_17_pairs_within_both_inclusive_bounds(lower, upper, first):
    harness = harness_of(lower, upper)
    for side in (first, 1 - first):
        for time in range(10, 20):
            harness.process_element(f"a{time}", time, input_index=side)
    expected = {
        (f"a{left}", f"a{right}", left, right)
        for left in range(10, 20)
        for right in range(10, 20)
        if lower <= right - left <= upper
    }
    assert len(harness.values()) == len(expected)
    assert set(harness.values()) == expected
    assert all(time == max(left, right) for (_, _, left, right), time in harness.output())


def test_elements_of_different_keys_do_not_meet():
    harness = harness_of(-5, 5)
    harness.process_element("a1", 1, input_index=LEFT)
    harness.process_element("b1", 1, input_index=RIGHT)
    assert harness.output() == []


def test_elements_with_one_timestamp_all_take_part_in_the_order_of_arrival():
    harness = harness_of(0, 0)
    harness.process_elements([("a1", 5), ("a2", 5)], LEFT)
    harness.process_elements([("a3", 5), ("a4", 5)], RIGHT)
    assert [pair[:2] for pair in harness.values()] == [
        ("a1", "a3"), ("a2", "a3"), ("a1", "a4"), ("a2", "a4"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("time", "is_late"), [(9, True), (10, False), (11, False)], ids=["before", "at", "after"]
)
@pytest.mark.parametrize("side", [LEFT, RIGHT], ids=["left", "right"])
def test_rule_17_an_element_is_late_iff_its_timestamp_is_less_than_the_watermark(
    side, time, is_late
):
    harness = harness_of(-5, 5, left_late_tag="late left", right_late_tag="late right")
    harness.process_watermark(10)
    harness.process_element("a1", time, input_index=side)
    tags = ("late left", "late right")
    assert harness.side_output(tags[side]) == ([("a1", time)] if is_late else [])
    assert harness.side_output(tags[1 - side]) == []
    assert bool(buffered(harness, "left") or buffered(harness, "right")) is not is_late


def test_late_elements_without_a_side_output_are_dropped_and_counted():
    harness = harness_of(-5, 5)
    harness.process_watermark(10)
    harness.process_element("a1", 9, input_index=LEFT)
    assert harness.state_entries() == {}
    metrics = harness.metrics.report()
    assert metrics["numLateRecordsDropped"][1] == 1
    assert metrics["lateRecordsLatenessMs"][1]["max"] == 1


@pytest.mark.parametrize(
    ("lower", "upper", "left_goes_at", "right_goes_at"),
    [
        pytest.param(-2, 3, 13, 12, id="around"),
        pytest.param(1, 2, 12, 10, id="right after left: the right one only looks back"),
        pytest.param(-3, -1, 10, 13, id="right before left: the left one only looks back"),
        pytest.param(0, 0, 10, 10, id="at once"),
    ],
)
def test_rule_17_elements_leave_the_state_as_soon_as_no_partner_can_come(
    lower, upper, left_goes_at, right_goes_at
):
    for side, gone_at in (("left", left_goes_at), ("right", right_goes_at)):
        harness = harness_of(lower, upper)
        harness.process_element("a1", 10, input_index=LEFT if side == "left" else RIGHT)
        harness.process_watermark(gone_at - 1)
        assert buffered(harness, side) == [("a", 10)]
        harness.process_watermark(gone_at)
        assert buffered(harness, side) == []
        assert harness.state_entries() == {}


@pytest.mark.parametrize("side", [LEFT, RIGHT], ids=["left", "right"])
def test_rule_17_an_element_at_the_watermark_does_not_find_a_partner_that_has_just_gone(side):
    harness = harness_of(-5, 5)
    harness.process_element("a1", 5, input_index=side)
    harness.process_element("a2", 6, input_index=side)
    harness.process_watermark(10)
    harness.process_element("a3", 10, input_index=1 - side)
    assert [set(pair[:2]) for pair in harness.values()] == [{"a2", "a3"}]


@pytest.mark.parametrize("restores", [False, True], ids=["in one go", "with a restore"])
def test_rule_17_elements_at_the_watermark_meet_if_both_come_after_it(restores):
    harness = harness_of(0, 0)
    harness.process_element("a1", 10, input_index=LEFT)
    harness.process_element("b1", 10, input_index=LEFT)
    harness.process_watermark(10)
    harness.process_element("a2", 10, input_index=LEFT)
    if restores:
        harness = harness_of(0, 0, snapshots=[harness.snapshot()])
    for value in ("a3", "b3"):
        harness.process_element(value, 10, input_index=RIGHT)
    assert [pair[:2] for pair in harness.values()] == [("a2", "a3")]


def test_only_expired_elements_are_removed():
    harness = harness_of(0, 5)
    for time in (1, 2, 3, 8):
        harness.process_element(f"a{time}", time, input_index=LEFT)
    harness.process_element("b1", 1, input_index=LEFT)
    harness.process_watermark(7)
    assert buffered(harness, "left") == [("a", 3), ("a", 8)]
    harness.process_element("a9", 8, input_index=RIGHT)
    assert [pair[:2] for pair in harness.values()] == [("a3", "a9"), ("a8", "a9")]


def test_an_element_out_of_order_is_kept_in_order():
    harness = harness_of(0, 10)
    for time in (5, 3, 4, 3):
        harness.process_element(f"a{time}", time, input_index=LEFT)
    harness.process_element("a6", 6, input_index=RIGHT)
    assert [pair[2] for pair in harness.values()] == [3, 3, 4, 5]


def test_state_and_watermark_survive_a_restore():
    harness = harness_of(-2, 2)
    harness.process_element("a1", 10, input_index=LEFT)
    harness.process_watermark(9)
    harness.snapshot()
    harness.process_element("a2", 10, input_index=LEFT)
    restored = harness_of(-2, 2, snapshots=[harness.snapshot()], left_late_tag="late")
    restored.process_element("a3", 8, input_index=LEFT)
    assert restored.side_output("late") == [("a3", 8)]
    restored.process_element("a4", 11, input_index=RIGHT)
    assert [pair[:2] for pair in restored.values()] == [("a1", "a4"), ("a2", "a4")]
    restored.process_watermark(13)
    assert restored.state_entries() == {}


def test_keys_find_their_partners_after_a_change_of_parallelism():
    def select(value):
        return value[0]

    spec = IntervalJoinSpec(Pairs(), -5, 5)
    before = OperatorHarness(spec, key_selector=select)
    for key in "abcdefgh":
        before.process_element(key, 10, input_index=LEFT)
    snapshot = before.snapshot()
    joined = []
    for subtask in range(3):
        part = OperatorHarness.restore(spec, [snapshot], subtask, 3, key_selector=select)
        for key, _ in buffered(part, "left"):
            part.process_element(key, 11, input_index=RIGHT)
        joined += part.values()
    assert sorted(pair[0] for pair in joined) == list("abcdefgh")


def test_a_record_without_a_timestamp_is_refused():
    harness = harness_of(0, 0)
    with pytest.raises(RecordError, match="timestamp"):
        harness.process_element("a1", None, input_index=LEFT)


def test_an_error_shows_the_pair():
    class Fails:
        def process_element(self, left, right, ctx):
            raise ValueError("no")

    harness = harness_of(0, 0, Fails())
    harness.process_element("a1", 1, input_index=LEFT)
    with pytest.raises(UserCodeError, match="ValueError: no") as caught:
        harness.process_element("a2", 1, input_index=RIGHT)
    assert "('a1', 'a2')" in caught.value.detail


def test_the_function_has_keyed_state_and_side_outputs():
    from penstock.common import Types
    from penstock.datastream import OutputTag
    from penstock.datastream.state import ValueStateDescriptor

    class CountPairs:
        def open(self, context):
            self.count = context.get_state(ValueStateDescriptor("count", Types.INT()))

        def process_element(self, left, right, ctx):
            self.count.update((self.count.value() or 0) + 1)
            return [(OutputTag("counts"), self.count.value())]

    harness = harness_of(0, 0, CountPairs())
    for value in ("a1", "b1", "a2"):
        harness.process_element(value, 1, input_index=LEFT)
    harness.process_element("a3", 1, input_index=RIGHT)
    harness.process_element("b3", 1, input_index=RIGHT)
    assert harness.output() == []
    assert [count for count, _ in harness.side_output("counts")] == [1, 2, 1]


def test_a_lookup_does_not_look_at_all_elements_of_a_key():
    """10,000 elements of one key, 10,000 lookups of one: only the partners are touched."""
    harness = harness_of(0, 0)
    operator = harness.operator
    assert isinstance(operator, IntervalJoinOperator)
    for time in range(10_000):
        operator.buffers[LEFT].add("a", time, time)

    class Times(list):
        seen = 0

        def __getitem__(self, at):
            Times.seen += 1
            return super().__getitem__(at)

    times, buckets = operator.buffers[LEFT].index["a"]
    operator.buffers[LEFT].index["a"] = (Times(times), buckets)
    harness.process_element("a1", 5000, input_index=RIGHT)
    assert [pair[0] for pair in harness.values()] == [5000]
    assert Times.seen < 50


def test_elements_that_come_and_go_between_two_barriers_leave_nothing_behind():
    harness = harness_of(0, 10)
    operator = harness.operator
    assert isinstance(operator, IntervalJoinOperator)
    for time in range(0, 200_000, 10):
        harness.process_element(f"a{time}", time, input_index=LEFT)
        harness.process_watermark(time)
    left = operator.buffers[LEFT]
    assert len(left.index["a"][0]) < 20
    assert len(left._fresh) <= 16_384
    assert len(left._buckets) == len(left._bucket_heap) <= 2
    assert buffered(harness, "left") == [("a", 199_990)]


# Against models

events = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([LEFT, RIGHT]), st.sampled_from("ab"), st.integers(0, 30)),
        st.tuples(st.just("watermark"), st.integers(0, 30)),
        st.just(("restore",)),
    ),
    max_size=40,
)
bounds = st.tuples(st.integers(-6, 6), st.integers(-6, 6)).map(sorted)


def naive_join(script, lower, upper):
    """Flink's operator, in its simplest form: lists, scans, and a removal time for each element."""
    kept = {LEFT: [], RIGHT: []}
    pairs, late, watermark = [], [], -(2**63)
    for number, step in enumerate(script):
        if step[0] == "restore":
            continue
        if step[0] == "watermark":
            watermark = max(watermark, step[1])
            for side, reach in ((LEFT, upper), (RIGHT, -lower)):
                kept[side] = [e for e in kept[side] if e[1] + max(reach, 0) > watermark]
            continue
        side, key, time = step
        if time < watermark:
            late.append((side, f"{key}{number}", time))
            continue
        element = (f"{key}{number}", time)
        kept[side].append(element)
        for other, other_time in kept[1 - side]:
            left, right = (time, other_time) if side == LEFT else (other_time, time)
            if other[0] == key and lower <= right - left <= upper:
                names = (element[0], other) if side == LEFT else (other, element[0])
                pairs.append((*names, left, right))
    return sorted(pairs), late, sum(len(elements) for elements in kept.values())


@settings(max_examples=examples(300), deadline=None)
@given(events, bounds, st.sampled_from([1, 40]))
def test_the_operator_agrees_with_a_naive_one(script, limits, scale):
    """Also where elements that go away together, as their timestamps are close, are those of a part of the interval only."""
    script = [
        tuple(
            part * scale if len(step) > 1 and at == len(step) - 1 else part
            for at, part in enumerate(step)
        )
        for step in script
    ]
    lower, upper = (limit * scale for limit in limits)
    tags = {"left_late_tag": "l", "right_late_tag": "r"}
    harness = harness_of(lower, upper, **tags)
    found, late = [], []
    watermark = -(2**63)
    for number, step in enumerate(script):
        if step[0] == "restore":
            found += harness.values()
            late += [*harness.side_output("l"), *harness.side_output("r")]
            harness = harness_of(lower, upper, snapshots=[harness.snapshot()], **tags)
        elif step[0] == "watermark":
            watermark = max(watermark, step[1])
            harness.process_watermark(watermark)
        else:
            side, key, time = step
            harness.process_element(f"{key}{number}", time, input_index=side)
    found += harness.values()
    late += [*harness.side_output("l"), *harness.side_output("r")]
    harness.operator.barrier()
    pairs, expected_late, kept = naive_join(script, lower, upper)
    assert sorted(found) == pairs
    assert sorted(late) == sorted((value, time) for _, value, time in expected_late)
    sizes = [
        len(values)
        for side in ("left", "right")
        for _, values in harness.keyed_state.table(
            f"panes/interval-join-{side}", namespaced=True
        ).items()
    ]
    assert sum(sizes) == kept


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([LEFT, RIGHT]), st.sampled_from("ab"), st.integers(0, 20)),
        max_size=30,
    ),
    bounds,
    st.integers(0, 5),
)
def test_without_late_elements_the_result_is_the_relational_join(elements, limits, slack):
    """With a watermark that is right, nothing is lost although state goes away early."""
    lower, upper = limits
    harness = harness_of(lower, upper)
    names = [(side, f"{key}{n}", key, time) for n, (side, key, time) in enumerate(elements)]
    names.sort(key=lambda element: element[3] + int(element[1][1:]) * 7 % (slack + 1))
    for at, (side, name, _, time) in enumerate(names):
        harness.process_element(name, time, input_index=side)
        rest = [later[3] for later in names[at + 1 :]]
        watermark = min(rest, default=MAX) - 1
        if watermark > harness.timers.watermark:
            harness.process_watermark(watermark)
    expected = sorted(
        (left, right, left_time, right_time)
        for left_side, left, left_key, left_time in names
        for right_side, right, right_key, right_time in names
        if left_side == LEFT
        and right_side == RIGHT
        and left_key == right_key
        and lower <= right_time - left_time <= upper
    )
    assert sorted(harness.values()) == expected
    harness.process_watermark(MAX)
    assert harness.state_entries() == {}
