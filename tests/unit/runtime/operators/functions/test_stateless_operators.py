"""map, filter and flat_map."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common.types import Row
from penstock.datastream import OutputTag
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import FilterSpec, FlatMapSpec, MapSpec
from penstock.runtime.operators.emission import has_side_outputs
from penstock.runtime.records import RowBatch
from penstock.state_descriptors.descriptors import ValueStateDescriptor
from penstock.testing import OperatorHarness

SIDE = OutputTag("side")
OTHER = OutputTag("other")


def run(spec, values, timestamps=None, **options):
    harness = OperatorHarness(spec, **options)
    harness.process_batch(RowBatch(list(values), timestamps))
    return harness


class Doubler:
    def open(self, context):
        self.log = ["open"]

    def map(self, value):
        return value * 2

    def close(self):
        self.log.append("close")


def test_map_gives_one_result_per_record_with_its_timestamp():
    assert run(MapSpec(lambda n: n + 1), [1, 2], [10, None]).output() == [(2, 10), (3, None)]
    function = Doubler()
    harness = run(MapSpec(function), [3])
    harness.close()
    assert harness.output() == [(6, None)]
    assert function.log == ["open", "close"]


def test_filter_keeps_records_with_true_result():
    harness = run(FilterSpec(lambda n: n % 2), [1, 2, 3], [10, 20, 30])
    assert harness.output() == [(1, 10), (3, 30)]
    assert run(FilterSpec(lambda n: None), [1, 2]).batch_sizes() == []


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda n: [n] * n if n else None, id="a list or None"),
        pytest.param(lambda n: (n for _ in range(n)), id="a generator"),
        pytest.param(lambda n: tuple([n] * n), id="a tuple"),
    ],
)
def test_rule_12_flat_map_may_return_anything_iterable(function):
    harness = run(FlatMapSpec(function), [2, 0, 1], [10, 20, 30])
    assert harness.output() == [(2, 10), (2, 10), (1, 30)]
    assert run(FlatMapSpec(function), [0]).batch_sizes() == []
    assert run(FlatMapSpec(function), [2]).output() == [(2, None), (2, None)]


def sort_out(value):
    yield value
    if value % 2:
        yield SIDE, -value
    yield OTHER, str(value)


@pytest.mark.parametrize("timestamps", [[10, 20, 30], None], ids=["timed", "timeless"])
def test_rule_12_flat_map_yields_to_side_outputs(timestamps):
    harness = run(FlatMapSpec(sort_out), [1, 2, 3], timestamps)
    times = timestamps or [None] * 3
    assert harness.output() == list(zip([1, 2, 3], times, strict=True))
    assert harness.side_output(SIDE) == [(-1, times[0]), (-3, times[2])]
    assert harness.side_output(OTHER) == list(zip("123", times, strict=True))


def test_rule_12_flat_map_may_yield_to_side_outputs_only():
    harness = run(FlatMapSpec(lambda n: [(SIDE, n)]), [1, 2])
    assert harness.output() == []
    assert harness.side_output(SIDE) == [(1, None), (2, None)]


class LikeATag:
    """Answers to any name, and is not a tag."""

    def __getattr__(self, name):
        return name


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        pytest.param([], False, id="nothing"),
        pytest.param([1, "a", [SIDE, 1]], False, id="no tuples"),
        pytest.param([("word", 1), ("word", 2)], False, id="pairs"),
        pytest.param([(), (1,)], False, id="empty tuples"),
        pytest.param([(Row(tag_id=1), 1), (LikeATag(), 1)], False, id="what only looks like a tag"),
        pytest.param([("word", 1), (SIDE, 1)], True, id="one tag"),
        pytest.param([(), 5, (SIDE, 1)], True, id="a tag among all kinds"),
    ],
)
def test_side_outputs_are_found_among_results(results, expected):
    assert has_side_outputs(results) is expected


@given(
    st.lists(
        st.lists(
            st.one_of(
                st.integers(),
                st.tuples(st.integers(), st.integers()),
                st.just(()),
                st.tuples(st.just(SIDE), st.integers()),
            ),
            max_size=3,
        ),
        max_size=10,
    )
)
def test_flat_map_splits_any_results(results):
    harness = run(FlatMapSpec(lambda found: found), results, list(range(len(results))))
    pairs = [(value, time) for time, found in enumerate(results) for value in found]
    tagged = [pair for pair in pairs if type(pair[0]) is tuple and pair[0][:1] == (SIDE,)]
    assert harness.output() == [pair for pair in pairs if pair not in tagged]
    assert harness.side_output(SIDE) == [(value[1], time) for value, time in tagged]


class CountPerKey:
    def open(self, context):
        self.state = context.get_state(ValueStateDescriptor("n", None))

    def _next(self):
        self.state.update((self.state.value() or 0) + 1)
        return self.state.value()

    def map(self, value):
        return value, self._next()

    def filter(self, value):
        return self._next() == 1

    def flat_map(self, value):
        yield value, self._next()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(MapSpec, [("a", 1), ("b", 1), ("a", 2)], id="map"),
        pytest.param(FlatMapSpec, [("a", 1), ("b", 1), ("a", 2)], id="flat_map"),
        pytest.param(FilterSpec, ["a", "b"], id="filter"),
    ],
)
def test_on_a_keyed_stream_state_belongs_to_the_key_of_the_record(spec, expected):
    harness = run(spec(CountPerKey()), ["a", "b", "a"], key_selector=lambda value: value)
    assert harness.values() == expected


def stop(value):
    if value == 2:
        raise StopIteration
    return [value]


class Keyed:
    """A function with `open`, so that the operator sets the key record by record."""

    def __init__(self, function):
        self.map = self.filter = self.flat_map = function

    def open(self, context):
        pass


SPECS = pytest.mark.parametrize("spec", [MapSpec, FilterSpec, FlatMapSpec])


@SPECS
@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keyed"])
@pytest.mark.parametrize(
    ("function", "kind"),
    [
        pytest.param(lambda n: [1 // (n - 2)], ZeroDivisionError, id="error"),
        pytest.param(stop, Exception, id="StopIteration must not end the batch"),
    ],
)
def test_rule_21_an_error_names_operator_subtask_and_record(spec, keyed, function, kind):
    options = {"key_selector": lambda value: value} if keyed else {}
    harness = OperatorHarness(
        spec(Keyed(function) if keyed else function),
        name="step",
        subtask=1,
        parallelism=2,
        **options,
    )
    with pytest.raises(UserCodeError) as caught:
        harness.process_batch(RowBatch([1, 2, 3]))
    assert caught.value.detail == "in operator 'step', subtask 2 of 2, record 2"
    assert isinstance(caught.value.__cause__, kind)
    assert harness.output() == []


def test_rule_21_long_records_are_shortened_and_bad_reprs_survive():
    class Unspeakable:
        def __repr__(self):
            raise RuntimeError("no")

    def fail(value):
        raise ValueError("bad")

    for record, shown in [("x" * 500, "..."), (Unspeakable(), "repr failed: no")]:
        with pytest.raises(UserCodeError) as caught:
            run(MapSpec(fail), [record])
        assert shown in caught.value.detail
        assert len(caught.value.detail) < 300
