"""Draws a pattern's automaton: as DOT for Graphviz, and as SVG with its own layout."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from penstock.runtime.cep.engine import Automaton, Edge
from penstock.runtime.cep.engine.automaton import (
    ALWAYS,
    ANY,
    END,
    PENDING,
    STRICT,
)

_GAP_WORDS = {STRICT: "", ANY: "skip any"}
_COLOURS = {STRICT: "#2f6fed", ANY: "#c2410c"}
_RELAXED_COLOUR = "#0f766e"


@dataclass(frozen=True, slots=True)
class _Arrow:
    source: str
    target: str
    label: str
    colour: str


def arrows(automaton: Automaton) -> list[_Arrow]:
    """Return all edges, from the start, between positions, and to the end."""
    found = [_arrow(automaton, "start", number, first=True) for number in automaton.start]
    for position, edges in enumerate(automaton.follow):
        found += [_arrow(automaton, f"p{position}", number) for number in edges]
        if automaton.accepts[position]:
            found.append(_Arrow(f"p{position}", "match", "", "#444444"))
    return found


def _arrow(automaton: Automaton, source: str, number: int, *, first: bool = False) -> _Arrow:
    edge = automaton.edges[number]
    targets = {END: "match", PENDING: "match"}
    target = targets.get(edge.target, f"p{edge.target}")
    return _Arrow(
        source, target, _label(automaton, edge, first), _COLOURS.get(edge.gap, _RELAXED_COLOUR)
    )


def _label(automaton: Automaton, edge: Edge, first: bool) -> str:
    def text(number: int) -> str:
        return "anything" if number == ALWAYS else str(automaton.conditions[number])

    parts = []
    if edge.target == PENDING:
        parts.append("time is up")
    elif edge.target == END:
        parts.append("next event")
    elif edge.condition is not None:
        parts.append(text(edge.condition))
    if not first and edge.target >= 0:
        parts.append(_GAP_WORDS.get(edge.gap, "skip others"))
    parts += [f"not next {text(each)}" for each in edge.first_unless]
    parts += [f"stop at {text(each)}" for each in edge.stopped_by]
    parts += [f"no {text(each)}" for each in edge.closed_by + edge.closed_first]
    parts += [f"until {text(each)}" for each in edge.take_unless]
    if edge.limit is not None:
        parts.append(f"within {edge.limit} ms")
    return ", ".join(part for part in parts if part and part != "?")


def position_names(automaton: Automaton) -> list[str]:
    """Return a name for each position: its pattern, with a number if there are several."""
    counts: dict[str, int] = {}
    for name in automaton.names:
        counts[name] = counts.get(name, 0) + 1
    seen: dict[str, int] = {}
    names = []
    for name in automaton.names:
        seen[name] = seen.get(name, 0) + 1
        names.append(name if counts[name] == 1 else f"{name} {seen[name]}")
    return names


def to_dot(automaton: Automaton) -> str:
    """Return the automaton in Graphviz's language."""
    lines = ["digraph pattern {", "  rankdir=LR;", '  node [shape=circle, fontname="sans-serif"];']
    lines.append('  start [shape=point, width=0.15]; match [shape=doublecircle, label="match"];')
    lines += [
        f"  p{index} [label={_quoted(name)}];"
        for index, name in enumerate(position_names(automaton))
    ]
    lines += [
        f"  {arrow.source} -> {arrow.target} "
        f'[label={_quoted(arrow.label)}, color="{arrow.colour}"];'
        for arrow in arrows(automaton)
    ]
    lines.append("}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# SVG: the positions are in a row. Neighbours are connected by straight arrows, others by arcs: above if they lead
# forward, below if they
# lead back.

_STEP, _RADIUS, _TOP = 150, 26, 40


def to_svg(automaton: Automaton) -> str:
    """Return the automaton as an SVG picture."""
    names = position_names(automaton)
    order = {"start": 0, "match": len(names) + 1}
    order.update({f"p{index}": index + 1 for index in range(len(names))})
    all_arrows = arrows(automaton)
    spans = [order[a.target] - order[a.source] for a in all_arrows]
    above = max([*(span for span in spans if span > 1), 0])
    below = max([*(1 - span for span in spans if span <= 0), 0])
    middle = _TOP + 44 * above + _RADIUS
    height = middle + _RADIUS + 40 + 44 * below
    width = _STEP * (len(names) + 1) + 2 * 60
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="sans-serif" font-size="12">'
        ),
        (
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="context-stroke"/></marker></defs>'
        ),
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    used: dict[tuple[int, int], int] = {}
    for arrow in all_arrows:
        pair = order[arrow.source], order[arrow.target]
        copy = used[pair] = used.get(pair, -1) + 1
        parts.append(_svg_arrow(pair, arrow, middle, copy))
    for name, place in order.items():
        label = names[place - 1] if name.startswith("p") and name != "p" else name
        parts.append(_svg_state(name, label, 60 + place * _STEP, middle))
    parts.append("</svg>")
    return "\n".join(parts)


def _svg_state(name: str, label: str, x: int, y: int) -> str:
    if name == "start":
        return f'<circle cx="{x}" cy="{y}" r="6" fill="#222"/>'
    ring = (
        f'<circle cx="{x}" cy="{y}" r="{_RADIUS - 4}" fill="none" stroke="#222"/>'
        if name == "match"
        else ""
    )
    return (
        f'<circle cx="{x}" cy="{y}" r="{_RADIUS}" fill="#f4f6fb" stroke="#222"/>{ring}'
        f'<text x="{x}" y="{y + 4}" text-anchor="middle">{escape(label)}</text>'
    )


def _svg_arrow(pair: tuple[int, int], arrow: _Arrow, y: int, copy: int) -> str:
    start, end = (60 + place * _STEP for place in pair)
    span = pair[1] - pair[0]
    from_radius = 6 if arrow.source == "start" else _RADIUS
    style = f'fill="none" stroke="{arrow.colour}" stroke-width="1.5" marker-end="url(#tip)"'
    if span == 1 and not copy:
        path = f"M{start + from_radius} {y}L{end - _RADIUS} {y}"
        x, text_y = (start + end) // 2, y - 8
    elif span == 0:
        path = (
            f"M{start - 12} {y + _RADIUS - 3}C{start - 40} {y + 78} {start + 40} {y + 78} "
            f"{start + 12} {y + _RADIUS - 3}"
        )
        x, text_y = start, y + 80
    else:
        side = -1 if span > 0 else 1
        reach = side * (_RADIUS + 44 * max(abs(span), 1) + 14 * copy)
        from_y, to_y = y + side * min(from_radius, _RADIUS - 2), y + side * (_RADIUS - 2)
        path = f"M{start} {from_y}C{start} {y + reach} {end} {y + reach} {end} {to_y}"
        x, text_y = (start + end) // 2, y + (3 * reach) // 4 - 4 * (side < 0) + 14 * (side > 0)
    label = (
        f'<text x="{x}" y="{text_y}" text-anchor="middle" fill="{arrow.colour}" font-size="10">'
        f"{escape(arrow.label)}</text>"
        if arrow.label
        else ""
    )
    return f'<path d="{path}" {style}/>{label}'
