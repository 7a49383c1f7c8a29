"""The automaton and a matcher that tries everything find the same matches."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import HealthCheck, given, settings

from penstock.cep import Pattern
from penstock.common import Time
from tests.builders.examples import examples
from tests.unit.runtime.cep.brute_force import find_matches
from tests.unit.runtime.cep.patterns import (
    Has,
    buildable,
    events,
    patterns,
)
from tests.unit.runtime.cep.running import run

END = 10_000


def check(pattern, stream):
    found, _, state = run(pattern, stream, END)
    assert sorted(found) == sorted(find_matches(pattern.build(), stream, END))
    if pattern.build().within is not None:
        assert not state, "after the time of within nothing is left"


@settings(max_examples=examples(2000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(patterns().filter(buildable), events)
def test_random_patterns_over_random_events(pattern, stream):
    check(pattern, stream)


@settings(max_examples=examples(500), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(patterns(nots=False, limits=False), events)
def test_patterns_without_negation_and_time(pattern, stream):
    check(pattern, stream)


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(patterns(), events)
def test_a_pattern_survives_pickling(pattern, stream):
    if buildable(pattern):
        again = pickle.loads(pickle.dumps(pattern.build()))
        assert len(find_matches(again, stream, END)) == len(set(run(pattern, stream, END)[0]))


def p(letter="a", name="p"):
    return Pattern.begin(name).where(Has(letter))


# Found by the random tests, or by comparing with Flink 2.3, while the automaton was made.
FOUND = {
    "what must not come next ends a loop too": (
        p("a").one_or_more().not_next("n").where(Has("c")),
        [("a0", 0), ("c1", 0), ("a2", 0), ("b3", 0)],
        [(("p", 2),)],
    ),
    "the event that ends a greedy loop may be the next pattern's": (
        p("a").one_or_more().until(Has("a")).optional().greedy().next("q").where(Has("a")),
        [("a0", 0)],
        [(("q", 0),)],
    ),
    "two negations at the end: the last one decides when the match is complete": (
        p("a").not_followed_by("q").where(Has("a")).not_next("r").where(Has("a")),
        [("a0", 0), ("b1", 0)],
        [(("p", 0),)],
    ),
    "a match that may be split in two ways is found once": (
        Pattern.begin(p("a").one_or_more()).times(2),
        [("a0", 0), ("a1", 0), ("a2", 0)],
        [(("p", 0), ("p", 1)), (("p", 0), ("p", 1), ("p", 2)), (("p", 1), ("p", 2))],
    ),
    "an event that is both forbidden and the last one completes the match": (
        p("a").not_followed_by("n").where(Has("b")).followed_by("q").where(Has("c")),
        [("a0", 0), ("bc1", 0)],
        [(("p", 0), ("q", 1))],
    ),
    "the way around a group keeps what its greedy pattern says": (
        Pattern.begin(p("a").one_or_more().optional().greedy()).next("q").where(Has("a")),
        [("a0", 0)],
        [],
    ),
    "all that must not come next ends a loop, not only the first of them": (
        p("c").one_or_more().not_next("q").where(Has("a")).not_next("r").where(Has("c")),
        [("c0", 0), ("c1", 0), ("b2", 0)],
        [(("p", 1),)],
    ),
    "of two ways to take the same events the one that is complete counts when time is up": (
        Pattern.begin(p("a").one_or_more())
        .times(2)
        .not_followed_by("q")
        .where(Has("b"))
        .within(Time.milliseconds(1)),
        [("a0", 0), ("a1", 0)],
        [(("p", 0), ("p", 1))],
    ),
    "a greedy loop goes on with what must not come next": (
        p("c").one_or_more().greedy().not_next("n").where(Has("c")).next("q").where(Has("a")),
        [("c0", 0), ("c1", 1), ("a2", 2)],
        [(("p", 0), ("p", 1), ("q", 2)), (("p", 1), ("q", 2))],
    ),
    "behind what must not come next a greedy loop has no say": (
        p("b")
        .one_or_more()
        .greedy()
        .not_next("n")
        .where(Has("c"))
        .followed_by("q")
        .where(Has("b")),
        [("b0", 0), ("d1", 0), ("b2", 2), ("b3", 3)],
        [(("p", 0), ("q", 2))],
    ),
    "the next event completes the match, also one that must not follow": (
        p("a").not_followed_by("m").where(Has("b")).not_next("n").where(Has("c")),
        [("a0", 0), ("b1", 1)],
        [(("p", 0),)],
    ),
    "behind what must not come everything may be optional": (
        p("a").not_followed_by("m").where(Has("b")).followed_by("q").where(Has("c")).optional(),
        [("a0", 0), ("b1", 1), ("c2", 2)],
        [(("p", 0),)],
    ),
    "until ends a group inside of it too": (
        Pattern.begin(p("a").followed_by("q").where(Has("b"))).one_or_more().until(Has("d")),
        [("a0", 0), ("b1", 1), ("a2", 2), ("d3", 3), ("b4", 4)],
        [(("p", 0), ("q", 1))],
    ),
    "a greedy loop of two or three leaves no event that it could have taken": (
        p("a").times(2, 3).greedy().followed_by("q").where(Has("b")),
        [("a0", 0), ("a1", 0), ("a2", 0), ("a3", 0), ("b4", 0)],
        [(("p", 1), ("p", 2), ("p", 3), ("q", 4)), (("p", 2), ("p", 3), ("q", 4))],
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_counter_examples(name):
    pattern, stream, expected = FOUND[name]
    assert sorted(run(pattern, stream, END)[0]) == expected
    check(pattern, stream)
