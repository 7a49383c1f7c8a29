"""Patterns that come from a stream."""

from __future__ import annotations

import pytest

from penstock.cep import CEP, MalformedPatternError, Pattern, PatternProcessFunction
from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.graph.operator_specs import DynamicCepSpec
from penstock.graph.state_descriptors import MapStateDescriptor
from penstock.testing import OperatorHarness
from penstock.testing.mini_cluster import MiniCluster


def word(letters):
    """A pattern of these letters, each followed by the next."""
    pattern = None
    for number, letter in enumerate(letters):
        name = f"{number}{letter}"
        pattern = Pattern.begin(name) if pattern is None else pattern.followed_by(name)
        pattern = pattern.where(lambda event, letter=letter: event[1] == letter)
    return pattern


def pattern_of(description):
    name, letters = description
    return name, None if letters is None else word(letters).within(100)


class Show(PatternProcessFunction):
    def process_match(self, match, ctx):
        yield ctx.get_pattern_id(), "".join(e[1] for events in match.values() for e in events)


def plan_of(description):
    name, pattern = pattern_of(description)
    return name, None if pattern is None else pattern.build()


SPEC = DynamicCepSpec(plan_of, Show(), MapStateDescriptor("patterns"))


def start(*descriptions, **options):
    test = OperatorHarness(SPEC, key_selector=[lambda e: e[0], None], **options)
    for description in descriptions:
        test.process_element(description, 0, input_index=1)
    return test


def feed(test, letters, begin):
    test.process_elements([(("k", letter), begin + i) for i, letter in enumerate(letters)])
    test.process_watermark(begin + len(letters))


def test_several_patterns_look_at_the_same_events():
    test = start(("x", "ab"), ("y", "ac"))
    feed(test, "abc", 1)
    assert sorted(test.values()) == [("x", "ab"), ("y", "ac")]


def test_a_pattern_may_be_added_replaced_and_ended_while_the_job_runs():
    test = start(("x", "ab"))
    feed(test, "ab", 1)
    test.process_element(("x", "cd"), 0, input_index=1)
    feed(test, "abcd", 10)
    test.process_element(("x", None), 0, input_index=1)
    feed(test, "abcd", 20)
    assert test.values() == [("x", "ab"), ("x", "cd")]


def test_matches_in_progress_of_an_unchanged_pattern_go_on():
    test = start(("x", "ab"), ("y", "ab"))
    feed(test, "a", 1)
    test.process_element(("x", "ab"), 0, input_index=1)
    test.process_element(("y", "ac"), 0, input_index=1)
    feed(test, "bc", 10)
    assert test.values() == [("x", "ab")]


def test_patterns_and_partial_matches_survive_a_restore():
    test = start(("x", "ab"), ("y", "ac"))
    feed(test, "a", 1)
    again = OperatorHarness.restore(SPEC, [test.snapshot()], key_selector=[lambda e: e[0], None])
    feed(again, "bc", 10)
    assert sorted(again.values()) == [("x", "ab"), ("y", "ac")]


def test_nothing_is_left_of_a_pattern_that_was_ended():
    test = start(("x", "ab"))
    feed(test, "a", 1)
    assert test.state_entries() == {"cep/dynamic-runs": 1}
    test.process_element(("x", None), 0, input_index=1)
    assert test.state_entries() == {}


def test_nothing_is_left_after_within():
    test = start(("x", "ab"))
    feed(test, "a", 1)
    test.process_watermark(200)
    assert test.state_entries() == {}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_whole_program(parallelism):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    events = env.from_collection([("k", "a", 1), ("l", "b", 2), ("k", "b", 3)])
    events = events.assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(lambda event, _: event[2])
    )
    rules = env.from_collection([("x", "ab")]).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(lambda rule, _: 0)
    )
    found = CEP.dynamic_patterns(events.key_by(lambda e: e[0]), rules, pattern_of).process(Show())
    with MiniCluster(), found.execute_and_collect() as results:
        assert list(results) == [("x", "ab")]


def test_a_description_of_a_pattern_that_cannot_be_fails_with_the_reason():
    test = OperatorHarness(
        DynamicCepSpec(
            lambda d: (d, Pattern.begin("a").not_followed_by("b").build()),
            Show(),
            MapStateDescriptor("patterns"),
        ),
        key_selector=[lambda e: e[0], None],
    )
    with pytest.raises(MalformedPatternError):
        test.process_element("x", 0, input_index=1)
