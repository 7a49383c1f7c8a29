"""Writes the pictures and the table of docs/reference/cep.md, from real runs of its patterns.

    python tools/gen_cep.py

Text between `<!-- generated: name -->` and `<!-- end -->` is replaced, the pictures are docs/images/cep/*.svg. A unit test
checks that the page and the pictures show what the program does today.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from pathlib import Path

from penstock.cep import AfterMatchSkipStrategy, Pattern
from penstock.cep.debugging import trace
from penstock.cep.refusals import refusal_table
from penstock.runtime.cep.engine import KeyRuns, Nfa, compile_pattern

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "reference" / "cep.md"
IMAGES = DOCS / "images" / "cep"


def has(letter: str) -> Callable[[str], bool]:
    def condition(event: str) -> bool:
        return event[0] == letter

    condition.__name__ = f"is {letter}"
    return condition


def single(name: str, letter: str, skip: AfterMatchSkipStrategy | None = None) -> Pattern:
    return Pattern.begin(name, skip).where(has(letter))


def pair(step: str) -> Pattern:
    pattern: Pattern = getattr(single("a", "a"), step)("b").where(has("b"))
    return pattern


def negative(step: str) -> Pattern:
    pattern: Pattern = getattr(single("a", "a"), step)("c").where(has("c"))
    return pattern.followed_by("b").where(has("b"))


def loop(change: Callable[[Pattern], Pattern]) -> Pattern:
    pattern = single("c", "c").followed_by("a").where(has("a")).one_or_more()
    return change(pattern).followed_by("b").where(has("b"))


def skipping(skip: AfterMatchSkipStrategy) -> Pattern:
    return single("b", "b", skip).one_or_more().greedy().next("c").where(has("c"))


PAIR_EVENTS = ["a", "x", "b1", "b2"]
NOT_EVENTS = ["a1", "c", "a2", "x", "b"]
LOOP_EVENTS = ["c", "a1", "a2", "d", "a3", "b"]
SKIP_EVENTS = ["b1", "b2", "b3", "c"]
Skip = AfterMatchSkipStrategy

PICTURES: dict[str, tuple[Pattern, list[str]]] = {
    "next": (pair("next"), PAIR_EVENTS),
    "followed_by": (pair("followed_by"), PAIR_EVENTS),
    "followed_by_any": (pair("followed_by_any"), PAIR_EVENTS),
    "not_next": (negative("not_next"), NOT_EVENTS),
    "not_followed_by": (negative("not_followed_by"), NOT_EVENTS),
    "consecutive": (loop(Pattern.consecutive), LOOP_EVENTS),
    "relaxed_loop": (loop(lambda pattern: pattern), LOOP_EVENTS),
    "allow_combinations": (loop(Pattern.allow_combinations), LOOP_EVENTS),
    "greedy": (loop(Pattern.greedy), LOOP_EVENTS),
    "no_skip": (skipping(Skip.no_skip()), SKIP_EVENTS),
    "skip_to_next": (skipping(Skip.skip_to_next()), SKIP_EVENTS),
    "skip_past_last_event": (skipping(Skip.skip_past_last_event()), SKIP_EVENTS),
    "skip_to_first": (skipping(Skip.skip_to_first("c")), SKIP_EVENTS),
    "skip_to_last": (skipping(Skip.skip_to_last("b")), SKIP_EVENTS),
}


def find(pattern: Pattern, events: list[str]) -> list[list[str]]:
    """Run a pattern; return the events of each match, in the order they were found."""
    nfa, state = Nfa(compile_pattern(pattern.build())), KeyRuns()
    return [
        [event for taken in match.values() for event in taken]
        for time, event in enumerate(events)
        for match in nfa.step(state, event, time).matches
    ]


def draw(pattern: Pattern, events: list[str]) -> str:
    """Draw events as a row of circles, and below it a line for each match."""
    matches = find(pattern, events)
    step, top, row = 64, 34, 24
    width = 40 + step * len(events)
    height = top + 34 + row * max(len(matches), 1) + 6
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="sans-serif" font-size="13">'
        ),
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    place = {event: 20 + step // 2 + step * index for index, event in enumerate(events)}
    colours = {"a": "#2f6fed", "b": "#0f766e", "c": "#c2410c"}
    for event, x in place.items():
        colour = colours.get(event[0], "#9aa3b2")
        parts.append(f'<circle cx="{x}" cy="{top}" r="17" fill="{colour}"/>')
        parts.append(
            f'<text x="{x}" y="{top + 4}" text-anchor="middle" fill="white">{escape(event)}</text>'
        )
    for number, match in enumerate(matches):
        y = top + 36 + row * number
        xs = [place[event] for event in match]
        parts.append(f'<path d="M{xs[0]} {y}L{xs[-1]} {y}" stroke="#444" stroke-width="2"/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="6" fill="#444"/>' for x in xs]
    if not matches:
        parts.append(
            f'<text x="{width // 2}" y="{top + 42}" text-anchor="middle" fill="#777">no match</text>'
        )
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def pictures() -> dict[str, str]:
    """Return all pictures by file name."""
    found = {f"{name}.svg": draw(*shown) for name, shown in PICTURES.items()}
    found["automaton.svg"] = PICTURES["relaxed_loop"][0].explain("svg") + "\n"
    return found


def blocks() -> dict[str, str]:
    """Return the generated parts of the page."""
    pattern, events = PICTURES["followed_by"]
    return {
        "refusals": refusal_table(),
        "debug": "```text\n" + trace(pattern.build(), events) + "\n```",
        "dot": "```dot\n" + pattern.explain() + "\n```",
    }


def render(page: str, parts: dict[str, str]) -> str:
    """Put the generated parts into the page."""
    for name, text in parts.items():
        mark = re.compile(rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page = mark.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)
    return page


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, text in pictures().items():
        (IMAGES / name).write_text(text)
    PAGE.write_text(render(PAGE.read_text(), blocks()))


if __name__ == "__main__":
    main()
