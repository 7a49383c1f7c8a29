"""Patterns of letters, and what shows their matches."""

from __future__ import annotations

from penstock.cep import Pattern, PatternProcessFunction


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
