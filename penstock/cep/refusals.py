"""Rules for valid patterns, each with its reason, as data for errors and documentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.errors import InvalidProgramError


class MalformedPatternError(InvalidProgramError):
    """A pattern is not valid."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule for patterns: what is rejected, why, and what to write instead."""

    message: str
    reason: str
    hint: str


REFUSALS: Final[dict[str, Refusal]] = {
    "duplicate name": Refusal(
        "two patterns have the same name",
        "matches are accessed by pattern name",
        "use unique names, also inside groups",
    ),
    "not last without within": Refusal(
        "a pattern cannot end with not_followed_by without a time limit",
        "the match would complete only at the end of the stream",
        "add within(...)",
    ),
    "not after optional": Refusal(
        "not_next and not_followed_by cannot follow an optional pattern",
        "it would be unclear which event they refer to",
        "use two patterns, one with the optional part and one without",
    ),
    "not quantified": Refusal(
        "a negative pattern cannot have a quantifier",
        "an event that must not occur cannot occur several times, or optionally",
        "remove times, one_or_more, optional and greedy",
    ),
    "not last in group": Refusal(
        "a group cannot end with not_next or not_followed_by",
        "a negative pattern must be followed by a pattern of the same group",
        "put it after the group",
    ),
    "group with condition": Refusal(
        "a group cannot have conditions",
        "where, or_ and subtype apply to single events",
        "put the condition on the patterns inside the group",
    ),
    "repeated group may be empty": Refusal(
        "a group that may match nothing cannot be repeated",
        "it could be repeated forever without taking an event",
        "make at least one pattern of the group mandatory",
    ),
    "quantifier twice": Refusal(
        "the pattern already has a quantifier",
        "times, times_or_more and one_or_more are mutually exclusive",
        "keep one of them",
    ),
    "optional twice": Refusal(
        "the pattern is already optional",
        "calling optional() twice is most likely a mistake",
        "keep one optional()",
    ),
    "optional after greedy": Refusal(
        "an optional pattern cannot follow a greedy one",
        "the greedy pattern would have to know what follows the optional one",
        "remove greedy(), or use two patterns",
    ),
    "greedy single": Refusal(
        "greedy requires a quantifier",
        "a pattern that takes one event cannot take more",
        "add one_or_more() or times(...) before greedy()",
    ),
    "greedy group": Refusal(
        "a group cannot be greedy",
        "a single event does not show whether the group could continue",
        "make the patterns inside the group greedy",
    ),
    "greedy combinations": Refusal(
        "greedy and allow_combinations are mutually exclusive",
        "the one takes all events it can, the other tries to skip each of them",
        "keep one of them",
    ),
    "inner contiguity single": Refusal(
        "consecutive and allow_combinations require a quantifier",
        "they apply between the events of one pattern, and this one takes a single event",
        "add one_or_more() or times(...) before; between two patterns use next or followed_by_any",
    ),
    "inner contiguity twice": Refusal(
        "consecutive and allow_combinations are mutually exclusive",
        "the one forbids gaps, the other allows all of them",
        "keep one of them",
    ),
    "until without loop": Refusal(
        "until requires a looping pattern",
        "it ends a loop that has no other end",
        "add one_or_more() or times_or_more(...) before until(...)",
    ),
    "until twice": Refusal(
        "the pattern already has an until condition",
        "a loop has only one end condition",
        "combine the conditions with or in one function",
    ),
    "or without where": Refusal(
        "or_ requires a condition before it",
        "a pattern without a condition already matches every event",
        "start with where(...)",
    ),
    "times": Refusal(
        "times requires a positive number, or a range that starts at 0 or more",
        "a pattern must be able to take an event",
        "use optional() for a pattern that may be skipped",
    ),
    "within not positive": Refusal(
        "the time of within must be positive",
        "no event can be within an empty time span",
        "for example Duration.of_minutes(10)",
    ),
    "within between": Refusal(
        "the time limit between two events is longer than that of the whole match",
        "it would never be reached",
        "shorten the time limit between events",
    ),
    "within previous at start": Refusal(
        "the first pattern has no previous event",
        "within(..., previous_and_current) measures from the previous event",
        "put it on a later pattern, or on a pattern with a quantifier",
    ),
    "within previous of group": Refusal(
        "the time limit between events does not apply to a group",
        "a group has several events",
        "put within(..., previous_and_current) on the patterns inside",
    ),
    "skip to unknown": Refusal(
        "the skip strategy refers to an unknown pattern",
        "it could never apply",
        "use the name of a pattern that takes events",
    ),
    "skip in group": Refusal(
        "a group cannot have a skip strategy",
        "skip strategies apply to matches of the whole pattern, not of its groups",
        "pass it to the outermost begin(...)",
    ),
}


def refuse(rule: str, detail: str | None = None) -> MalformedPatternError:
    """Return the error for a violated rule."""
    refusal = REFUSALS[rule]
    why = refusal.reason if detail is None else f"{detail}: {refusal.reason}"
    return MalformedPatternError(refusal.message, detail=why, hint=refusal.hint)


def refusal_table() -> str:
    """Return all rules as a Markdown table."""
    rows = ["| Rejected | Reason | Instead |", "|---|---|---|"]
    rows += [f"| {each.message} | {each.reason} | {each.hint} |" for each in REFUSALS.values()]
    return "\n".join(rows)
