"""Patterns that cannot be are refused when they are built, each with its reason."""

from __future__ import annotations

import pytest

from penstock.cep import AfterMatchSkipStrategy, MalformedPatternError, Pattern, WithinType
from penstock.cep.refusals import REFUSALS, refusal_table
from penstock.errors import ArgumentError, ArgumentTypeError

PREVIOUS = WithinType.PREVIOUS_AND_CURRENT


def a():
    return Pattern.begin("a")


def group():
    return Pattern.begin("g").next("h")


EXAMPLES = {
    "duplicate name": lambda: a().next("a"),
    "not last without within": lambda: a().not_followed_by("b").build(),
    "not after optional": lambda: a().optional().not_next("b"),
    "not quantified": lambda: a().not_next("b").optional(),
    "not last in group": lambda: a().next(Pattern.begin("g").not_next("h")),
    "group with condition": lambda: a().next(group()).where(bool),
    "repeated group may be empty": lambda: a().next(Pattern.begin("g").optional()).times(2),
    "quantifier twice": lambda: a().times(2).one_or_more(),
    "optional twice": lambda: a().optional().optional(),
    "optional after greedy": lambda: a().one_or_more().greedy().next("b").optional(),
    "greedy single": lambda: a().greedy(),
    "greedy group": lambda: a().next(group()).times(2).greedy(),
    "greedy combinations": lambda: a().one_or_more().allow_combinations().greedy(),
    "inner contiguity single": lambda: a().consecutive(),
    "inner contiguity twice": lambda: a().times(2).consecutive().allow_combinations(),
    "until without loop": lambda: a().times(2).until(bool),
    "until twice": lambda: a().one_or_more().until(bool).until(bool),
    "or without where": lambda: a().or_(bool),
    "times": lambda: a().times(0),
    "within not positive": lambda: a().within(0),
    "within between": lambda: a().next("b").within(9, PREVIOUS).within(5).build(),
    "within previous at start": lambda: a().within(5, PREVIOUS),
    "within previous of group": lambda: a().next(group()).within(5, PREVIOUS),
    "skip to unknown": lambda: Pattern.begin(
        "a", AfterMatchSkipStrategy.skip_to_first("z")
    ).build(),
    "skip in group": lambda: a().next(
        Pattern.begin("g", AfterMatchSkipStrategy.skip_to_next()).next("h")
    ),
}


@pytest.mark.parametrize("rule", REFUSALS)
def test_a_pattern_that_cannot_be_is_refused_with_its_reason(rule):
    with pytest.raises(MalformedPatternError) as error:
        EXAMPLES[rule]()
    refusal = REFUSALS[rule]
    assert error.value.message == refusal.message
    assert refusal.reason in error.value.detail
    assert error.value.hint == refusal.hint


@pytest.mark.parametrize(
    ("build", "error"),
    [
        pytest.param(lambda: Pattern.begin(""), ArgumentError, id="empty name"),
        pytest.param(lambda: Pattern.begin(3), ArgumentTypeError, id="name is not a string"),
        pytest.param(lambda: a().where(3), ArgumentTypeError, id="condition is not a function"),
        pytest.param(lambda: a().where(lambda: True), ArgumentTypeError, id="takes nothing"),
        pytest.param(lambda: a().where(lambda x, y, z: True), ArgumentTypeError, id="takes three"),
        pytest.param(lambda: a().subtype("str"), ArgumentTypeError, id="subtype is not a class"),
        pytest.param(lambda: a().times("2"), ArgumentTypeError, id="times is not a number"),
        pytest.param(lambda: a().times(2, "soon"), ArgumentTypeError, id="window is not a time"),
        pytest.param(lambda: a().one_or_more("soon"), ArgumentTypeError, id="loop's is not a time"),
        pytest.param(lambda: a().within("soon"), ArgumentTypeError, id="within is not a time"),
        pytest.param(lambda: a().within(5, "first"), ArgumentTypeError, id="no WithinType"),
        pytest.param(lambda: a().not_next(group()), ArgumentTypeError, id="group must not come"),
        pytest.param(lambda: Pattern.begin("a", "skip"), ArgumentTypeError, id="skip is text"),
        pytest.param(
            lambda: AfterMatchSkipStrategy.skip_to_next().throw_exception_on_miss(),
            ArgumentError,
            id="a strategy that cannot miss",
        ),
    ],
)
def test_arguments_are_checked_when_the_method_is_called(build, error):
    with pytest.raises(error):
        build()


@pytest.mark.parametrize(
    "again", [lambda p: p.one_or_more(), lambda p: p.times(1), lambda p: p.times_or_more(2)]
)
def test_once_is_a_quantifier_too(again):
    with pytest.raises(MalformedPatternError, match="already has a quantifier"):
        again(a().times(1))


def test_times_1_counts_as_a_quantifier():
    for change in (Pattern.consecutive, Pattern.allow_combinations, Pattern.greedy):
        change(a().times(1)).build()


def test_optional_after_greedy_is_rejected_across_a_negative_pattern():
    with pytest.raises(MalformedPatternError, match="cannot follow a greedy one"):
        a().one_or_more().greedy().not_followed_by("b").next("c").optional()


def test_a_group_has_no_window_time():
    with pytest.raises(MalformedPatternError, match="does not apply to a group"):
        a().next(group()).times(2, window_time=5)


def test_a_window_time_is_not_longer_than_the_whole():
    with pytest.raises(MalformedPatternError, match="longer than that of the whole"):
        a().times(2, window_time=9).within(5).build()


@pytest.mark.parametrize("times", [(0,), (-1,), (3, 2), (0, 0)])
def test_impossible_numbers_of_times(times):
    with pytest.raises(MalformedPatternError, match="times"):
        a().times(*times)


def test_a_default_argument_does_not_make_a_condition_iterative():
    assert not a().where(lambda event, limit=5: event > limit).build().nodes[0].condition.iterative


def test_a_pattern_is_not_changed_by_its_methods():
    first = a()
    first.where(bool).times(3).next("b")
    assert repr(first) == "Pattern(a)"


def test_the_table_has_a_row_for_each_rule():
    assert len(refusal_table().splitlines()) == len(REFUSALS) + 2
