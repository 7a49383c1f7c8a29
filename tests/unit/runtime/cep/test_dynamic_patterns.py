"""Patterns that come from a stream."""

from __future__ import annotations

import pytest

from penstock.cep import MalformedPatternError, Pattern
from penstock.graph.operator_specs import DynamicCepSpec
from penstock.state_descriptors.descriptors import MapStateDescriptor
from penstock.testing import OperatorHarness
from tests.builders.letter_patterns import Show, pattern_of


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
