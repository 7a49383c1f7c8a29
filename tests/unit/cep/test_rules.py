"""The rules of CEP, with the examples that define them."""

from __future__ import annotations

import pickle

import pytest

from penstock.cep import AfterMatchSkipStrategy, Pattern, WithinType
from penstock.common import Duration
from penstock.runtime.cep.engine import (
    KeyRuns,
    Nfa,
    SkipError,
    compile_pattern,
)
from tests.unit.runtime.cep.patterns import Has


def find(pattern, events):
    """Matches of events ["a1", "b2", ...] or [("a1", time)], each as its events joined by blanks, sorted."""
    nfa, state, found = Nfa(compile_pattern(pattern.build())), KeyRuns(), []
    pairs = [(e, i) if isinstance(e, str) else e for i, e in enumerate(events)]
    for event, time in pairs:
        result = nfa.step(state, event, time)
        found += [show(m) for m in result.matches] + [show(m) for m, _ in result.completed]
    return sorted(found)


def show(match):
    return " ".join(event for events in match.values() for event in events)


def begin(letter="a", skip=None):
    return Pattern.begin(letter, skip).where(Has(letter))


FIVE = ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param("followed_by", ["a b", "b c", "c d", "d e"], id="relaxed"),
        pytest.param(
            "followed_by_any",
            ["a b", "a c", "a d", "a e", "b c", "b d", "b e", "c d", "c e", "d e"],
            id="any",
        ),
        pytest.param("next", ["a b", "b c", "c d", "d e"], id="strict"),
    ],
)
def test_pairs_of_events_without_conditions(step, expected):
    assert find(getattr(Pattern.begin("start"), step)("end"), FIVE) == expected


@pytest.mark.parametrize(
    ("step", "expected"),
    [("next", []), ("followed_by", ["a b1"]), ("followed_by_any", ["a b1", "a b2"])],
)
def test_contiguity_determines_allowed_events_in_between(step, expected):
    pattern = getattr(begin("a"), step)("b").where(Has("b"))
    assert find(pattern, ["a", "x", "b1", "b2"]) == expected


LOOP = [
    ("c", 1), ("d", 2), ("a1", 3), ("a2", 4), ("a3", 4), ("d", 5), ("a4", 6), ("b", 7),
]  # fmt: skip
CONSECUTIVE = ["c a1 a2 a3 b", "c a1 a2 b", "c a1 b"]


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        pytest.param(Pattern.consecutive, CONSECUTIVE, id="consecutive"),
        pytest.param(lambda p: p, ["c a1 a2 a3 a4 b", *CONSECUTIVE], id="relaxed"),
        pytest.param(
            Pattern.allow_combinations,
            ["c a1 a2 a3 a4 b", "c a1 a2 a3 b", "c a1 a2 a4 b", "c a1 a2 b",
             "c a1 a3 a4 b", "c a1 a3 b", "c a1 a4 b", "c a1 b"],
            id="combinations",
        ),
    ],
)  # fmt: skip
def test_contiguity_inside_a_loop(inner, expected):
    loop = begin("c").followed_by("as").where(Has("a")).one_or_more()
    assert find(inner(loop).followed_by("b").where(Has("b")), LOOP) == expected


@pytest.mark.parametrize(
    ("last", "expected"), [(9, ["a b"]), (10, [])], ids=["just in time", "at the bound"]
)
def test_within_is_exclusive_at_the_bound(last, expected):
    pattern = begin("a").followed_by("b").where(Has("b")).within(10)
    assert find(pattern, [("a", 0), ("b", last)]) == expected


def test_within_previous_measures_neighbours():
    pattern = begin("a").followed_by("b").where(Has("b"))
    pattern = pattern.followed_by("c").where(Has("c")).within(5, WithinType.PREVIOUS_AND_CURRENT)
    assert find(pattern, [("a", 0), ("b", 100), ("c", 104)]) == ["a b c"]
    assert find(pattern, [("a", 0), ("b", 100), ("c", 105)]) == []


def test_the_shortest_time_of_all_patterns_counts():
    pattern = begin("a").within(100).followed_by("b").where(Has("b")).within(10)
    assert find(pattern, [("a", 0), ("b", 50)]) == []


SIX = [f"a{i}" for i in range(1, 7)]


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        pytest.param(
            AfterMatchSkipStrategy.no_skip(),
            ["a1 a2 a3", "a2 a3 a4", "a3 a4 a5", "a4 a5 a6"],
            id="no skip",
        ),
        pytest.param(
            AfterMatchSkipStrategy.skip_past_last_event(), ["a1 a2 a3", "a4 a5 a6"], id="past last"
        ),
    ],
)
def test_skip_strategies_on_three_times(skip, expected):
    assert find(begin("a", skip).times(3), SIX) == expected


# b+ followed by c on b1 b2 b3 c
@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        pytest.param(
            AfterMatchSkipStrategy.no_skip(),
            ["b1 b2 b3 c", "b1 b2 c", "b1 c", "b2 b3 c", "b2 c", "b3 c"],
            id="no skip",
        ),
        pytest.param(
            AfterMatchSkipStrategy.skip_to_next(), ["b1 b2 b3 c", "b2 b3 c", "b3 c"], id="next"
        ),
        pytest.param(AfterMatchSkipStrategy.skip_past_last_event(), ["b1 b2 b3 c"], id="past last"),
        pytest.param(
            AfterMatchSkipStrategy.skip_to_first("b"),
            ["b1 b2 b3 c", "b1 b2 c", "b1 c"],  # the others wait: the loop of b1 may go on
            id="to first",
        ),
        pytest.param(
            AfterMatchSkipStrategy.skip_to_last("b"), ["b1 b2 b3 c", "b3 c"], id="to last"
        ),
    ],
)
def test_skip_strategies_on_a_loop(skip, expected):
    pattern = begin("b", skip).one_or_more().followed_by("c").where(Has("c"))
    assert find(pattern, ["b1", "b2", "b3", "c"]) == expected


@pytest.mark.parametrize(
    ("target", "detail"),
    [("b", "the match has no event of this pattern"), ("a", "the match starts with this event")],
)
def test_skip_strategy_with_throw_on_miss_fails(target, detail):
    skip = AfterMatchSkipStrategy.skip_to_first(target).throw_exception_on_miss()
    pattern = begin("a", skip).next("b").where(Has("b")).optional().next("c").where(Has("c"))
    with pytest.raises(SkipError) as error:
        find(pattern, ["a", "c"])
    assert detail in error.value.detail


def test_a_match_waits_for_partial_matches_that_began_before():
    skip = AfterMatchSkipStrategy.skip_past_last_event()
    pattern = Pattern.begin("x", skip).where(lambda e: e[0] in "ab").followed_by("y")
    pattern = pattern.where(
        lambda e, ctx: e[0] == {"a": "z", "b": "y"}[ctx.get_events_for_pattern("x")[0][0]]
    )
    assert find(pattern, ["a", "b", "y"]) == []
    assert find(pattern, ["a", "b", "y", "z"]) == ["a z"]


@pytest.mark.parametrize(
    ("pattern", "events", "expected"),
    [
        pytest.param(begin().not_next("n").where(Has("n")).followed_by("b").where(Has("b")),
                     ["a", "n", "b"], [], id="not next, comes next"),
        pytest.param(begin().not_next("n").where(Has("n")).followed_by("b").where(Has("b")),
                     ["a", "x", "n", "b"], ["a b"], id="not next, comes later"),
        pytest.param(begin().not_followed_by("n").where(Has("n")).followed_by("b").where(Has("b")),
                     ["a", "x", "n", "b"], [], id="not followed by, comes later"),
        pytest.param(begin().not_followed_by("n").where(Has("n")).followed_by("b").where(Has("b")),
                     ["a", "x", "b", "n"], ["a b"], id="not followed by, comes too late"),
        pytest.param(begin().not_next("n").where(Has("n")), ["a", "x"], ["a"], id="not next last"),
        pytest.param(begin().not_next("n").where(Has("n")), ["a", "n"], [], id="not next last, comes"),
        pytest.param(begin().not_followed_by("n").where(Has("n")).within(3), ["a", "x", "x", "x"],
                     ["a"], id="not followed by last, time is up"),
        pytest.param(begin().not_followed_by("n").where(Has("n")).within(3), ["a", "x", "n", "x"],
                     [], id="not followed by last, comes"),
    ],
)  # fmt: skip
def test_negative_patterns(pattern, events, expected):
    assert find(pattern, events) == expected


def not_next(pattern, letter):
    return pattern.not_next("n").where(Has(letter))


def not_followed_by(pattern, letter):
    return pattern.not_followed_by("m").where(Has(letter))


GREEDY = begin("d").followed_by("c").where(Has("c")).one_or_more().greedy()
LOOSE = begin("d").followed_by("c").where(Has("c")).one_or_more()


# What Flink 2.3's own automaton gives.
@pytest.mark.parametrize(
    ("pattern", "events", "expected"),
    [
        pytest.param(not_next(GREEDY, "c").followed_by("a").where(Has("a")), "d c1 c2 a",
                     ["d c1 c2 a"], id="a greedy loop that can go on is not at its end"),
        pytest.param(not_next(GREEDY, "x").followed_by("a").where(Has("a")), "d c1 x c2 a",
                     [], id="it is at its end if it cannot"),
        pytest.param(not_next(GREEDY, "y").followed_by("r").where(Has("c")), "d c1 x c2",
                     ["d c1 c2"], id="behind its end an event that it could take may follow"),
        pytest.param(not_next(GREEDY, "x").followed_by("a").where(Has("a")), "d c1 cx a",
                     ["d c1 cx a"], id="an event that it takes may be what must not come next"),
        pytest.param(not_next(LOOSE, "c").followed_by("a").where(Has("a")), "d c1 c2 a",
                     [], id="a loop that is not greedy is at its end each time"),
        pytest.param(not_followed_by(GREEDY, "c").followed_by("a").where(Has("a")), "d c1 c2 a",
                     [], id="not at all is not at all"),
        pytest.param(not_next(not_followed_by(begin(), "b"), "c"), "a b x",
                     ["a"], id="the event that completes a match may be what must not follow"),
        pytest.param(not_next(not_followed_by(LOOSE, "b"), "x"), "d c b",
                     ["d c"], id="also behind a loop"),
        pytest.param(not_next(not_followed_by(begin(), "b"), "c"), "a c x",
                     [], id="but not what must not come next"),
    ],
)  # fmt: skip
def test_negative_patterns_after_loops_and_at_the_end(pattern, events, expected):
    assert find(pattern, events.split()) == expected


# What Flink 2.3's own automaton gives.
@pytest.mark.parametrize(
    ("forbid", "events", "expected"),
    [
        pytest.param(not_followed_by, "a", ["a"], id="complete at once"),
        pytest.param(
            not_followed_by, "a x c", ["a", "a c"], id="and once more with what is optional"
        ),
        pytest.param(not_followed_by, "a b c", ["a"], id="what must not come ends the rest only"),
        pytest.param(not_next, "a x c", ["a", "a c"], id="not next"),
        pytest.param(not_next, "a b c", ["a"], id="not next, comes"),
    ],
)
def test_negative_patterns_before_optional_patterns_only(forbid, events, expected):
    pattern = forbid(begin(), "b").followed_by("c").where(Has("c")).optional()
    assert find(pattern, events.split()) == expected


# What Flink 2.3's own automaton gives.
@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param("a1 b1 a2 b2 x a3 b3 c", ["a1 a2 b1 b2 c", "a1 b1 c", "a2 b2 c", "a3 b3 c"],
                     id="the loop is over, its exits stay open"),
        pytest.param("a1 b1 a2 x b2 c", ["a1 b1 c"], id="what is begun is given up"),
        pytest.param("ax b c", [], id="the event is not taken"),
        pytest.param("a b cx", ["a b cx"], id="what comes behind may take it"),
    ],
)  # fmt: skip
def test_until_ends_a_group(events, expected):
    group = begin("a").followed_by("b").where(Has("b"))
    pattern = Pattern.begin(group).one_or_more().until(Has("x")).followed_by("c").where(Has("c"))
    assert find(pattern, events.split()) == expected


def test_next_is_next_behind_a_repeated_group_too():
    """Flink lets other events pass there."""
    group = begin("a").followed_by("b").where(Has("b"))
    pattern = Pattern.begin(group).one_or_more().next("c").where(Has("c"))
    assert (find(pattern, ["a", "b", "c"]), find(pattern, ["a", "b", "x", "c"])) == (["a b c"], [])


def test_until_keeps_a_group_from_being_entered():
    group = begin("a").followed_by("b").where(Has("b"))
    pattern = begin("d").followed_by(group).one_or_more().until(Has("x"))
    assert (find(pattern, ["d", "a", "b"]), find(pattern, ["d", "x", "a", "b"])) == (["d a b"], [])


@pytest.mark.parametrize(
    ("quantify", "expected"),
    [
        pytest.param(
            lambda p: p.times(2, 5), ["c a1 a2", "c a1 a2 a3"], id="two to five, no limit"
        ),
        pytest.param(lambda p: p.times(2, Duration.of_millis(5)), ["c a1 a2"], id="times"),
        pytest.param(lambda p: p.times(2, window_time=4), [], id="the limit itself is too late"),
        pytest.param(lambda p: p.times(1, 3, 5), ["c a1", "c a1 a2"], id="range"),
        pytest.param(lambda p: p.times_or_more(2, 5), ["c a1 a2"], id="or more"),
        pytest.param(lambda p: p.one_or_more(5), ["c a1", "c a1 a2"], id="one or more"),
        pytest.param(lambda p: p.one_or_more(9), ["c a1", "c a1 a2", "c a1 a2 a3"], id="longer"),
    ],
)
def test_a_window_time_limits_the_time_from_the_event_before(quantify, expected):
    events = [("c", 0), ("a1", 3), ("a2", 7), ("a3", 15)]
    assert find(quantify(begin("c").followed_by("a").where(Has("a"))), events) == expected


@pytest.mark.parametrize(
    ("quantify", "expected"),
    [
        pytest.param(lambda p: p.optional(), ["c a1 b", "c b"], id="optional"),
        pytest.param(lambda p: p.times(2), ["c a1 a2 b"], id="times"),
        pytest.param(lambda p: p.times(1, 2), ["c a1 a2 b", "c a1 b"], id="range"),
        pytest.param(lambda p: p.times(0, 1), ["c a1 b", "c b"], id="range from zero"),
        pytest.param(lambda p: p.times_or_more(2), ["c a1 a2 a3 b", "c a1 a2 b"], id="or more"),
        pytest.param(lambda p: p.one_or_more().greedy(), ["c a1 a2 a3 b"], id="greedy"),
        pytest.param(lambda p: p.one_or_more().until(lambda e: e == "a2"), ["c a1 b"], id="until"),
    ],
)
def test_quantifiers(quantify, expected):
    pattern = quantify(begin("c").followed_by("a").where(Has("a")))
    assert find(pattern.followed_by("b").where(Has("b")), ["c", "a1", "a2", "a3", "b"]) == expected


def test_a_group_is_repeated_as_a_whole():
    group = Pattern.begin("a").where(Has("a")).next("b").where(Has("b"))
    pattern = begin("c").followed_by(group).times(2).followed_by("d").where(Has("d"))
    assert find(pattern, ["c", "a1", "b1", "x", "a2", "b2", "d"]) == ["c a1 a2 b1 b2 d"]


def test_conditions_are_joined_by_and_and_or():
    pattern = Pattern.begin("p").where(Has("a")).where(Has("1")).or_(Has("z"))
    assert find(pattern, ["a1", "a2", "z", "b1"]) == ["a1", "z"]


def test_a_subtype_is_tested_before_the_conditions():
    pattern = Pattern.begin("p").where(lambda e: e.startswith("a")).subtype(str)
    nfa, state = Nfa(compile_pattern(pattern.build())), KeyRuns()
    assert [nfa.step(state, e, 0).matches for e in (1, "a")] == [[], [{"p": ["a"]}]]


def test_an_iterative_condition_sees_the_events_taken_so_far():
    pattern = (
        Pattern.begin("up").where(lambda e, ctx: e > sum(ctx.get_events_for_pattern("up")))
        .one_or_more().consecutive().next("down").where(lambda e: e == 0)
    )  # fmt: skip
    nfa, state = Nfa(compile_pattern(pattern.build())), KeyRuns()
    found = [match for e in (1, 2, 4, 0) for match in nfa.step(state, e, 0).matches]
    assert {"up": [1, 2, 4], "down": [0]} in found


def test_a_condition_is_evaluated_once_for_an_event_however_many_partial_matches_there_are():
    calls = []

    def is_b(event):
        calls.append(event)
        return "b" in event

    pattern = begin("a").followed_by_any("b").where(is_b).followed_by("c").where(Has("c"))
    find(pattern, ["a1", "a2", "a3", "x", "b1", "b2"])
    assert calls == ["a2", "a3", "x", "b1", "b2"]


def test_partial_matches_share_their_beginning():
    pattern = begin("c").followed_by("a").where(Has("a")).one_or_more().allow_combinations()
    nfa, state = Nfa(compile_pattern(pattern.followed_by("b").where(Has("b")).build())), KeyRuns()
    for number, event in enumerate(["c", *(f"a{i}" for i in range(8))]):
        nfa.step(state, event, number)
    assert (len(state.runs), state.events()) == (128, 9)


def test_the_state_of_a_key_pickles_whatever_the_length_of_a_match():
    pattern = begin("a").one_or_more().consecutive().greedy().next("b").where(Has("b"))
    nfa, state = Nfa(compile_pattern(pattern.build())), KeyRuns()
    nfa.step(state, "a", 0)
    for number in range(1, 5000):
        nfa.step(state, "a", number)
        state.runs = state.runs[:1]
    again = pickle.loads(pickle.dumps(state))
    assert again.events() == 5000
    (match,) = nfa.step(again, "b", 5000).matches
    assert len(match["a"]) == 5000
