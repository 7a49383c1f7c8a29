"""Random small patterns over events that are words: an event matches the letters in it."""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.cep import MalformedPatternError, Pattern, WithinType

LETTERS = "abc"


class Has:
    """A condition: the event has this letter."""

    def __init__(self, letter):
        self.letter = letter

    def __call__(self, event):
        return self.letter in event

    def __repr__(self):
        return f"Has({self.letter!r})"


events = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "d", "a", "b", "c", "ab", "bc"]), st.integers(0, 3)),
    max_size=7,
).map(
    lambda steps: [
        (f"{word}{index}", sum(gap for _, gap in steps[: index + 1]))
        for index, (word, _) in enumerate(steps)
    ]
)


def attempt(pattern, change):
    """Change a pattern, or leave it where that is refused."""
    try:
        return change(pattern)
    except MalformedPatternError:
        return pattern


@st.composite
def patterns(draw, *, depth=1, names=None, nots=True, limits=True, skip=None, group=False):
    """A pattern that builds."""
    names = names if names is not None else iter("pqrstuvwxyz")
    pattern = None
    size = draw(st.integers(1, 3 if depth else 2))
    for index in range(size):
        if index == 0:
            steps = [lambda x: Pattern.begin(x, skip)]
        else:
            steps = [pattern.next, pattern.followed_by, pattern.followed_by_any]
        can_not = nots and index > 0 and not (group and index == size - 1)
        if can_not and draw(st.integers(0, 4)) == 0:
            step = draw(st.sampled_from([pattern.not_next, pattern.not_followed_by]))
            letter = draw(st.sampled_from(LETTERS))
            pattern = attempt(pattern, lambda p: step(next(names)).where(Has(letter)))
            continue
        step = draw(st.sampled_from(steps))
        if depth and draw(st.integers(0, 4)) == 0:
            inside = draw(patterns(depth=0, names=names, nots=nots, limits=False, group=True))
            pattern = step(inside)
        else:
            pattern = step(next(names))
            letter = draw(st.sampled_from([*LETTERS, *LETTERS, None]))
            if letter is not None:
                pattern = pattern.where(Has(letter))
        pattern = draw(quantified(pattern))
        if limits and draw(st.integers(0, 7)) == 0:
            time = draw(st.integers(1, 4))
            pattern = attempt(pattern, lambda p: p.within(time, WithinType.PREVIOUS_AND_CURRENT))
    if limits and draw(st.booleans()):
        pattern = pattern.within(draw(st.integers(1, 8)))
    return pattern


@st.composite
def quantified(draw, pattern):
    quantifier = draw(
        st.sampled_from(
            [
                None, None, None,
                lambda p: p.one_or_more(),
                lambda p: p.times(2),
                lambda p: p.times(1, 2),
                lambda p: p.times(2, 3),
                lambda p: p.times_or_more(2),
            ]
        )
    )  # fmt: skip
    if quantifier is not None:
        pattern = attempt(pattern, quantifier)
        inner = draw(st.sampled_from([None, None, Pattern.consecutive, Pattern.allow_combinations]))
        if inner is not None:
            pattern = attempt(pattern, inner)
        if draw(st.integers(0, 3)) == 0:
            pattern = attempt(pattern, Pattern.greedy)
        if draw(st.integers(0, 3)) == 0:
            letter = draw(st.sampled_from(LETTERS))
            pattern = attempt(pattern, lambda p: p.until(Has(letter)))
    if draw(st.integers(0, 3)) == 0:
        pattern = attempt(pattern, Pattern.optional)
    return pattern


def buildable(pattern):
    try:
        pattern.build()
    except MalformedPatternError:
        return False
    return True
