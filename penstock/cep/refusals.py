"""Patterns that cannot be: each with its reason, as data, for the errors and for the documentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.errors import InvalidProgramError


class MalformedPatternError(InvalidProgramError):
    """A pattern that cannot be compiled."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule that patterns keep: what is refused, why, and what to write instead."""

    message: str
    reason: str
    hint: str


REFUSALS: Final[dict[str, Refusal]] = {
    "duplicate name": Refusal(
        "two patterns have the same name",
        "a match is looked up by pattern name",
        "give each pattern a name of its own, also inside groups",
    ),
    "not last without within": Refusal(
        "a pattern cannot end with not_followed_by without a time limit",
        "the match would be complete only when the stream ends",
        "add within(...)",
    ),
    "not after optional": Refusal(
        "not_next and not_followed_by cannot come after an optional pattern",
        "it would not be clear behind which event the pattern must not come",
        "use two patterns, one with the optional part and one without",
    ),
    "not quantified": Refusal(
        "a pattern that must not come has no quantifier",
        "what does not come cannot come several times, or optionally",
        "leave times, one_or_more, optional and greedy away",
    ),
    "not last in group": Refusal(
        "a group cannot end with not_next or not_followed_by",
        "what must not come has to be followed by a pattern of the same group",
        "put it behind the group",
    ),
    "group with condition": Refusal(
        "a group has no conditions of its own",
        "where, or_ and subtype look at single events",
        "put the condition on the patterns inside the group",
    ),
    "repeated group may be empty": Refusal(
        "a group that may match nothing cannot be repeated",
        "it could be repeated without end without taking an event",
        "let one pattern of the group be not optional",
    ),
    "quantifier twice": Refusal(
        "the pattern already has a quantifier",
        "times, times_or_more and one_or_more exclude each other",
        "keep one of them",
    ),
    "optional twice": Refusal(
        "the pattern is optional already",
        "saying it twice is most likely a mistake",
        "keep one optional()",
    ),
    "optional after greedy": Refusal(
        "an optional pattern cannot follow a greedy one",
        "the greedy pattern would have to know what comes behind the optional one",
        "leave greedy() away, or use two patterns",
    ),
    "greedy single": Refusal(
        "greedy needs a pattern with a quantifier",
        "a pattern that takes one event cannot take more",
        "add one_or_more() or times(...) before greedy()",
    ),
    "greedy group": Refusal(
        "a group cannot be greedy",
        "one event does not tell whether the group could go on",
        "make the patterns inside the group greedy",
    ),
    "greedy combinations": Refusal(
        "greedy and allow_combinations exclude each other",
        "the one takes all it can, the other tries to leave out each",
        "keep one of them",
    ),
    "inner contiguity single": Refusal(
        "consecutive and allow_combinations need a pattern with a quantifier",
        "they are about the events of one pattern, and this one has a single event",
        "add one_or_more() or times(...) before; between two patterns use next or followed_by_any",
    ),
    "inner contiguity twice": Refusal(
        "consecutive and allow_combinations exclude each other",
        "the one forbids gaps, the other asks for all of them",
        "keep one of them",
    ),
    "until without loop": Refusal(
        "until needs a looping pattern",
        "it ends a loop that has no other end",
        "add one_or_more() or times_or_more(...) before until(...)",
    ),
    "until twice": Refusal(
        "the pattern already has an until condition",
        "there is one end of a loop",
        "join the conditions with or in one function",
    ),
    "or without where": Refusal(
        "or_ needs a condition before it",
        "a pattern without a condition matches everything already",
        "begin with where(...)",
    ),
    "times": Refusal(
        "times needs a positive number, or a range that begins at 0 or more",
        "a pattern that takes no event at all is no pattern",
        "use optional() for a pattern that may be left out",
    ),
    "within not positive": Refusal(
        "the time of within must be positive",
        "no event is inside of an empty time",
        "for example Duration.of_minutes(10)",
    ),
    "within between": Refusal(
        "the time between two neighbours is longer than that of the whole match",
        "it would never be reached",
        "make the time between neighbours shorter",
    ),
    "within previous at start": Refusal(
        "the first pattern has no event before it",
        "within(..., previous_and_current) measures from the event before",
        "put it on a later pattern, or on a pattern with a quantifier",
    ),
    "within previous of group": Refusal(
        "the time between neighbours is not that of a group",
        "a group has several events",
        "put within(..., previous_and_current) on the patterns inside",
    ),
    "skip to unknown": Refusal(
        "the skip strategy names a pattern that is not there",
        "it could never skip",
        "use the name of a pattern that takes events",
    ),
    "skip in group": Refusal(
        "a group has no skip strategy",
        "matches of the whole pattern are skipped, not of its groups",
        "give it to the outermost begin(...)",
    ),
}


def refuse(rule: str, detail: str | None = None) -> MalformedPatternError:
    """Return the error for a broken rule."""
    refusal = REFUSALS[rule]
    why = refusal.reason if detail is None else f"{detail}: {refusal.reason}"
    return MalformedPatternError(refusal.message, detail=why, hint=refusal.hint)


def refusal_table() -> str:
    """Return all rules as a Markdown table."""
    rows = ["| Refused | Because | Instead |", "|---|---|---|"]
    rows += [f"| {each.message} | {each.reason} | {each.hint} |" for each in REFUSALS.values()]
    return "\n".join(rows)
