"""CEP.pattern in whole programs."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from penstock.cep import (
    CEP,
    MalformedPatternError,
    Pattern,
    PatternFlatSelectFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    TimedOutPartialMatchHandler,
)
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.errors import ArgumentTypeError, InvalidProgramError
from penstock.testing import MiniCluster
from tests.builders.scripted import collect_sorted

EVENTS = [("k", "a", 1), ("l", "a", 2), ("k", "b", 3), ("l", "b", 30), ("k", "b", 4)]
AB = (
    Pattern.begin("a").where(lambda e: e[1] == "a").followed_by("b").where(lambda e: e[1] == "b")
).within(10)


@pytest.fixture
def env():
    with MiniCluster():
        yield StreamExecutionEnvironment.get_execution_environment()


def stream(env, events=EVENTS):
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    return env.from_collection(events).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(lambda e, _: e[2])
    )


def keyed(env, events=EVENTS):
    return CEP.pattern(stream(env, events).key_by(lambda e: e[0]), AB)


def times(match):
    return match["a"][0][2], match["b"][0][2]


def test_select_with_a_plain_function(env):
    assert collect_sorted(keyed(env).select(times)) == [(1, 3)]


def test_select_with_a_function_object_and_a_type(env):
    class Times(PatternSelectFunction):
        def select(self, match):
            return list(times(match))

    kind = Types.TUPLE([Types.INT(), Types.INT()])
    assert collect_sorted(keyed(env).select(Times(), kind)) == [(1, 3)]


def test_flat_select_yields_any_number(env):
    class Both(PatternFlatSelectFunction):
        def flat_select(self, match):
            yield from times(match)

    assert collect_sorted(keyed(env).flat_select(Both())) == [1, 3]


def test_a_stream_without_keys_is_one_sequence(env):
    assert collect_sorted(CEP.pattern(stream(env), AB).select(times)) == [(1, 3), (2, 3)]


def test_timed_out_partial_matches_of_select_go_to_a_side_output(env):
    tag = OutputTag("timeouts")
    result = keyed(env).select(
        times,
        timed_out_partial_matches_tag=tag,
        pattern_timeout_function=lambda match, time: (match["a"][0][0], time),
    )
    assert collect_sorted(result.get_side_output(tag)) == [("l", 12)]


def test_a_process_function_sees_key_and_time_and_timeouts(env):
    class Full(PatternProcessFunction, TimedOutPartialMatchHandler):
        def process_match(self, match, ctx):
            yield "match", ctx.get_current_key(), ctx.timestamp()

        def process_timed_out_match(self, match, ctx):
            yield "timeout", ctx.get_current_key(), ctx.timestamp()

    assert collect_sorted(keyed(env).process(Full())) == [("match", "k", 3), ("timeout", "l", 12)]


def test_late_events_go_to_a_side_output(env):
    late = OutputTag("late")
    events = [("k", "a", 100), ("k", "b", 200)]
    result = keyed(env, events).side_output_late_data(late).select(times)
    assert collect_sorted(result) == []  # 200 - 100 is more than 10
    result = keyed(env).side_output_late_data(late).select(times)
    assert result.get_side_output(late) is not None


def test_processing_time_needs_no_timestamps(env):
    plain = env.from_collection(EVENTS).key_by(lambda e: e[0])
    pattern = Pattern.begin("a").where(lambda e: e[1] == "a").followed_by("b")
    assert collect_sorted(CEP.pattern(plain, pattern).in_processing_time().select(times)) == [
        (1, 3), (2, 30),
    ]  # fmt: skip


def test_event_time_needs_timestamps(env):
    with pytest.raises(InvalidProgramError, match="needs timestamps"):
        CEP.pattern(env.from_collection(EVENTS), AB).select(times)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_keys_are_spread_over_subtasks(env, parallelism):
    env.set_parallelism(parallelism)
    events = [(f"k{i % 40}", "ab"[i // 40], i) for i in range(80)]
    pattern = Pattern.begin("a").where(lambda e: e[1] == "a").followed_by("b")
    pattern = pattern.where(lambda e: e[1] == "b")
    result = CEP.pattern(stream(env, events).key_by(lambda e: e[0]), pattern).select(times)
    assert collect_sorted(result) == [(i, i + 40) for i in range(40)]


def test_a_pattern_that_cannot_be_is_refused_with_the_stream(env):
    with pytest.raises(MalformedPatternError):
        CEP.pattern(stream(env), Pattern.begin("a").not_followed_by("b"))


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda s: CEP.pattern([1], AB), id="no stream"),
        pytest.param(lambda s: CEP.pattern(s, "a b"), id="no pattern"),
        pytest.param(lambda s: CEP.pattern(s, AB, comparator=3), id="no comparator"),
        pytest.param(lambda s: CEP.pattern(s, AB, comparator=lambda a: 0), id="takes one event"),
        pytest.param(lambda s: CEP.pattern(s, AB).select(3), id="no function"),
        pytest.param(lambda s: CEP.pattern(s, AB).process(times), id="no process function"),
        pytest.param(
            lambda s: CEP.pattern(s, AB).select(
                times, timed_out_partial_matches_tag=OutputTag("t")
            ),
            id="tag without timeout function",
        ),
        pytest.param(lambda s: CEP.pattern(s, AB).side_output_late_data("late"), id="no tag"),
    ],
)
def test_arguments_are_checked(env, build):
    with pytest.raises(ArgumentTypeError):
        build(stream(env))


def has_a(event):
    return "a" in event


class TestExplain:
    pattern = (
        Pattern.begin("start").where(has_a).followed_by("loop").one_or_more().not_next("never")
        .where(has_a).followed_by_any("end").optional().next("last")
    )  # fmt: skip

    def test_dot_has_a_node_for_each_position(self):
        text = self.pattern.explain()
        assert text.startswith("digraph pattern {")
        for name in ("start", "loop", "end", "last"):
            assert f'[label="{name}"]' in text
        assert "has_a" in text

    def test_svg_is_an_image(self):
        root = ET.fromstring(self.pattern.explain("svg"))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        circles = root.findall("{http://www.w3.org/2000/svg}circle")
        assert len(circles) == 4 + 1 + 2  # positions, start, and match with its ring


def test_debug_prints_the_transitions_of_each_event(capsys):
    pattern = (
        Pattern.begin("a").where(lambda e: e == "a").followed_by("b").where(lambda e: e == "b")
    )
    text = pattern.debug(["a", "x", "b"], timestamps=[1, 2, 3])
    assert capsys.readouterr().out == text + "\n"
    assert text.splitlines() == [
        "pattern a followed by b",
        "'a' @1",
        "  begin    a=['a']",
        "'x' @2",
        "  skip     a=['a']",
        "'b' @3",
        "  take     a=['a'] b=['b']",
        "  => match a=['a'] b=['b']",
        "nothing left at the end",
    ]
