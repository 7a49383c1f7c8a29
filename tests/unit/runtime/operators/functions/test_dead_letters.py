"""on_error: records that a function raises on go to a side output, and the rest goes on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import (
    DeadLetter,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
)
from penstock.errors import (
    ArgumentError,
    ArgumentTypeError,
    InvalidProgramError,
    RecordError,
)
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import (
    FilterSpec,
    FlatMapSpec,
    KeyedProcessSpec,
    MapSpec,
    ProcessSpec,
)
from penstock.runtime.operators.functions.process import ProcessOperator
from penstock.runtime.operators.functions.stateless import MapOperator
from penstock.runtime.operators.registry import create_operator
from penstock.runtime.records import RowBatch
from penstock.testing import OperatorHarness
from penstock.windowing._state import InternalDescriptor
from tests.builders.scripted import environment

DEAD = OutputTag("dead")


class Calls:
    """A function of numbers that counts its calls, and raises on some."""

    def __init__(self, bad, result=lambda value: value * 10, error=ValueError):
        self.bad, self.result, self.error, self.calls = set(bad), result, error, []

    def __call__(self, value):
        self.calls.append(value)
        if value in self.bad:
            raise self.error(f"no {value}")
        return self.result(value)


class Partly:
    """Yields two results, and raises between them on some values."""

    def __init__(self, bad):
        self.bad = set(bad)

    def flat_map(self, value):
        yield value
        if value in self.bad:
            raise ValueError(f"no {value}")
        yield value

    def process_element(self, value, ctx):
        yield from self.flat_map(value)


def run(spec, values, timestamps=None, **options):
    harness = OperatorHarness(spec, name="the operator", **options)
    harness.process_batch(RowBatch(list(values), timestamps and list(timestamps)))
    letters = [letter for letter, _ in harness.side_output(DEAD)]
    return harness, [letter.record for letter in letters]


values_and_bad = st.lists(st.integers(0, 9), max_size=30).flatmap(
    lambda values: st.tuples(st.just(values), st.sets(st.integers(0, 9)))
)


@given(values_and_bad, st.booleans(), st.sampled_from([ValueError, StopIteration]))
def test_map_calls_every_record_once_and_keeps_the_order(given_values, timed, error):
    values, bad = given_values
    function = Calls(bad, error=error)
    times = list(range(len(values))) if timed else None
    harness, dead = run(MapSpec(function, "dead"), values, times)
    assert function.calls == values
    good = [(v * 10, t if timed else None) for t, v in enumerate(values) if v not in bad]
    assert harness.output() == good
    assert dead == [v for v in values if v in bad]
    assert [t for _, t in harness.side_output(DEAD)] == [
        t if timed else None for t, v in enumerate(values) if v in bad
    ]


@given(values_and_bad)
def test_filter_calls_every_record_once(given_values):
    values, bad = given_values
    function = Calls(bad, result=lambda value: value % 2)
    harness, dead = run(FilterSpec(function, "dead"), values, range(len(values)))
    assert function.calls == values
    assert harness.output() == [(v, t) for t, v in enumerate(values) if v not in bad and v % 2]
    assert dead == [v for v in values if v in bad]


@given(values_and_bad)
def test_flat_map_emits_all_results_of_a_record_or_none(given_values):
    values, bad = given_values
    harness, dead = run(FlatMapSpec(Partly(bad), "dead"), values, range(len(values)))
    assert harness.output() == [
        (v, t) for t, v in enumerate(values) if v not in bad for _ in range(2)
    ]
    assert dead == [v for v in values if v in bad]


@given(values_and_bad)
def test_process_emits_all_results_of_a_record_or_none(given_values):
    values, bad = given_values
    for spec, options in (
        (ProcessSpec(Partly(bad), "dead"), {}),
        (KeyedProcessSpec(Partly(bad), "dead"), {"key_selector": lambda v: v % 3}),
    ):
        harness, dead = run(spec, values, range(len(values)), **options)
        assert harness.output() == [
            (v, t) for t, v in enumerate(values) if v not in bad for _ in range(2)
        ]
        assert dead == [v for v in values if v in bad]


def test_dead_letter_describes_the_failure():
    class OwnError(Exception):
        pass

    def parse(value):
        raise OwnError(f"cannot read {value}")

    harness, _ = run(MapSpec(parse, "dead"), ["x"], [7])
    ((letter, time),) = harness.side_output(DEAD)
    assert isinstance(letter, DeadLetter)
    assert (letter.record, letter.timestamp, time) == ("x", 7, 7)
    assert letter.error_type.endswith(".OwnError")
    assert (letter.message, letter.operator) == ("cannot read x", "the operator")
    assert "in parse" in letter.traceback
    assert "apply_to_batch" not in letter.traceback
    assert letter.traceback.rstrip().endswith("OwnError: cannot read x")
    with pytest.raises(AttributeError):
        letter.record = 1
    assert harness.metrics.report()["numDeadLetters"][1] == 1


def test_a_built_in_error_is_named_without_its_module():
    harness, _ = run(MapSpec(int, "dead"), ["x"])
    assert harness.side_output(DEAD)[0][0].error_type == "ValueError"


def test_a_filter_result_without_a_truth_value_is_a_failure_of_its_record():
    class Vague:
        def __bool__(self):
            raise ValueError("both")

    harness, dead = run(FilterSpec(lambda v: Vague() if v == 2 else True, "dead"), [1, 2, 3])
    assert (harness.values(), dead) == ([1, 3], [2])


def test_side_outputs_of_the_function_still_work():
    tag = OutputTag("odd")

    def split(value):
        return [(tag, value)] if value % 2 else [10 // value]

    harness, dead = run(FlatMapSpec(split, "dead"), [0, 1, 2])
    assert (harness.values(), dead) == ([5], [0])
    assert harness.side_output(tag) == [(1, None)]


def test_functions_with_state_see_the_key_of_each_record():
    class Count(MapFunction):
        def open(self, runtime_context):
            self.seen = runtime_context.get_state(InternalDescriptor("seen", "value"))

        def map(self, value):
            self.seen.update((self.seen.value() or 0) + 1)
            if value == 4:
                raise ValueError
            return value % 2, self.seen.value()

    harness, dead = run(MapSpec(Count(), "dead"), [1, 2, 4, 6], key_selector=lambda v: v % 2)
    # what the function did to state before it raised stays done
    assert harness.values() == [(1, 1), (0, 1), (0, 3)]
    assert dead == [4]


class Reuses:
    """Yields one list again and again, changed in between."""

    def flat_map(self, value):
        found = []
        for number in range(value):
            found.append(number)
            yield found

    def process_element(self, value, ctx):
        yield from self.flat_map(value)


@pytest.mark.parametrize("spec", [FlatMapSpec, ProcessSpec])
def test_results_stay_as_they_were_when_the_function_goes_on_with_its_objects(spec):
    harness, _ = run(spec(Reuses(), "dead"), [3])
    assert harness.values() == [[0], [0, 1], [0, 1, 2]]


class Timers(KeyedProcessFunction):
    def process_element(self, value, ctx):
        if value < 0:
            raise ValueError("negative")
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp, ctx):
        if timestamp == 13:
            raise ValueError("unlucky")
        yield timestamp


def test_timers_fire_and_their_errors_fail_the_job():
    harness, dead = run(
        KeyedProcessSpec(Timers(), "dead"), [5, -1, 13], [1, 2, 3], key_selector=lambda v: 0
    )
    assert dead == [-1]
    harness.process_watermark(5)
    assert harness.output() == [(5, 5)]
    with pytest.raises(UserCodeError, match="unlucky"):
        harness.process_watermark(13)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(lambda f: MapSpec(f, "dead"), id="map"),
        pytest.param(lambda f: ProcessSpec(type("P", (), {"process_element": lambda self, v, c: f(v)})(), "dead"), id="process"),
    ],
)  # fmt: skip
def test_errors_of_the_program_are_not_taken_for_errors_of_a_record(spec):
    def asks_for_state(value):
        raise InvalidProgramError("state needs a keyed stream")

    def cannot_read(value):
        raise RecordError("broken")

    with pytest.raises(UserCodeError, match="keyed stream") as caught:
        run(spec(asks_for_state), [1])
    assert isinstance(caught.value.__cause__, InvalidProgramError)
    assert run(spec(cannot_read), [1])[1] == [1]


def test_without_on_error_the_operators_are_the_plain_ones():
    assert type(create_operator(MapSpec(int))) is MapOperator
    assert type(create_operator(ProcessSpec(Partly([])))) is ProcessOperator


def test_plans_show_the_tag_only_if_there_is_one():
    from penstock.graph.describe import describe

    assert describe(MapSpec(len)) == {"type": "Map", "function": "len"}
    assert describe(MapSpec(len, "dead")) == {
        "type": "Map", "function": "len", "error_tag": "dead",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        pytest.param(lambda s: s.union(s).on_error(DEAD), InvalidProgramError, "union", id="on a union"),
        pytest.param(lambda s: s.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks()).on_error(DEAD), InvalidProgramError, "not available", id="on timestamps"),
        pytest.param(lambda s: s.key_by(lambda v: v).sum().on_error(DEAD), InvalidProgramError, "'Sum'", id="on a reduce"),
        pytest.param(lambda s: s.map(len).on_error("dead"), ArgumentTypeError, "OutputTag", id="a name for a tag"),
        pytest.param(lambda s: s.map(len).on_error(OutputTag("dead", Types.STRING())), ArgumentError, "another type", id="a tag with a type"),
    ],
)  # fmt: skip
def test_wrong_use_is_refused(use, error, message):
    with pytest.raises(error, match=message):
        use(environment().from_collection([1]))
