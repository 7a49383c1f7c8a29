"""Draws states and transitions as SVG: a column of boxes, with lanes for transitions that skip boxes.

Transitions down the column run on the right, transitions up on the left. All that lead to the same state share a lane.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from html import escape

from state_machines import Explored

_BOX, _LABELS, _LANE, _LINE, _LETTER, _MARGIN = 250, 120, 18, 16, 7.3, 16
_MANY = 4  # transitions from so many states are listed in their target instead of drawn
_STYLE = """\
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#0f172a}.head{font:600 14px system-ui,sans-serif}
.small{font-size:11px;fill:#475569}.bg{fill:#fff;stroke:#cbd5e1}.box{fill:#dbeafe;stroke:#1d4ed8;stroke-width:1.4}
.first{fill:#dcfce7;stroke:#15803d}.last{fill:#ffedd5;stroke:#c2410c}.edge{fill:none;stroke:#475569;stroke-width:1.4}
.arrow{marker-end:url(#tip)}.tip{fill:#475569}
@media(prefers-color-scheme:dark){text{fill:#e2e8f0}.small{fill:#a8b5c7}.bg{fill:#0f172a;stroke:#334155}
.box{fill:#172c54;stroke:#60a5fa}.first{fill:#0f3320;stroke:#4ade80}.last{fill:#43230f;stroke:#fb923c}.edge{stroke:#a8b5c7}.tip{fill:#a8b5c7}}"""

Edge = tuple[str, str]


def draw(explored: Explored, title: str, order: Sequence[str] = ()) -> str:
    """Return the picture. `order` is that of the boxes, from top to bottom; default: as they were reached."""
    states = [*order] or explored.states
    if set(states) != set(explored.states):
        raise ValueError(f"{title}: states differ: {sorted({*states} ^ {*explored.states})}")
    return _Picture(explored, title, states).render()


def _merged(explored: Explored) -> dict[Edge, list[str]]:
    """Return the labels of each edge; variants of an event are joined: `Event: a, b`."""
    found: dict[Edge, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for each in explored.transitions:
        event, _, variant = each.event.partition(": ")
        variants = found[each.before, each.after][event]
        if variant not in variants:
            variants.append(variant)
    return {
        edge: [_label(event, variants) for event, variants in events.items()]
        for edge, events in found.items()
    }


def _label(event: str, variants: list[str]) -> str:
    named = ", ".join(filter(None, variants))
    if not named:
        return event
    return f"{event} (also {named})" if "" in variants else f"{event} ({named})"


class _Picture:
    def __init__(self, explored: Explored, title: str, states: list[str]) -> None:
        self._title, self._states = title, states
        self._place = {state: number for number, state in enumerate(states)}
        self._first = explored.first
        self._final = {*states} - {t.before for t in explored.transitions if t.before != t.after}
        self._edges = _merged(explored)
        self._inside: dict[str, list[str]] = {state: [] for state in states}
        self._list_common_transitions()
        self._list_self_transitions()

    def _list_common_transitions(self) -> None:
        sources: dict[tuple[str, str], list[str]] = defaultdict(list)
        for (before, after), labels in self._edges.items():
            for label in labels:
                if before != after:
                    sources[after, label].append(before)
        for (after, label), states in sources.items():
            if len(states) < _MANY:
                continue
            others = [s for s in self._states if s not in states and s not in {after, *self._final}]
            where = "from all but " + ", ".join(others) if others else "from all"
            self._inside[after] += [f"<- {label}", f"   {where}"] if label else [f"<- {where}"]
            for state in states:
                self._edges[state, after].remove(label)
        self._edges = {edge: labels for edge, labels in self._edges.items() if labels}

    def _list_self_transitions(self) -> None:
        for before, after in list(self._edges):
            if before == after:
                self._inside[before] += [
                    f"stays: {label}" for label in self._edges.pop((before, after))
                ]

    def render(self) -> str:
        left = [e for e in self._edges if self._place[e[1]] < self._place[e[0]]]
        right = [e for e in self._edges if self._place[e[1]] > self._place[e[0]] + 1]
        lanes = {
            side: {target: lane for lane, target in enumerate(dict.fromkeys(e[1] for e in edges))}
            for side, edges in ((-1, left), (1, right))
        }
        inner = [line for lines in self._inside.values() for line in lines]
        box = max([_BOX, *(24 + 7 * len(line) for line in inner)])
        longest = max([0, *(len(label) for edge in left + right for label in self._edges[edge])])
        beside = max(_LABELS, round(longest * _LETTER) + 36)
        x = _MARGIN + (beside + _LANE * len(lanes[-1]) if left else 0)
        width = x + box + _MARGIN + (beside + _LANE * len(lanes[1]) if right else 0)
        width = max(width, x + box // 2 + 320)
        parts: list[str] = []
        y = _MARGIN + 34
        arrivals: dict[tuple[int, str], int] = {}
        departures: list[tuple[int, str, int, int]] = []  # side, target, y, where the label begins
        for number, state in enumerate(self._states):
            top = y
            y += 28 + (_LINE * len(self._inside[state]) + 6 if self._inside[state] else 0)
            for side, edges in ((-1, left), (1, right)):
                at = top + 22
                if state in lanes[side]:
                    arrivals[side, state] = at
                    at += 16
                for edge in edges:
                    if edge[0] == state:
                        at += _LINE * len(self._edges[edge])
                        edge_x = x if side < 0 else x + box
                        for row, label in enumerate(reversed(self._edges[edge])):
                            anchor = "end" if side < 0 else "start"
                            parts.append(
                                f'<text x="{edge_x + 8 * side}" y="{at - 4 - _LINE * row}" '
                                f'text-anchor="{anchor}">{escape(label)}</text>'
                            )
                        departures.append((side, edge[1], at, edge_x))
                        at += 8
                y = max(y, at + 4)
            parts.append(self._box(state, x, top, box, y - top))
            if number + 1 < len(self._states):
                labels = self._edges.get((state, self._states[number + 1]))
                gap = 26 + _LINE * max(len(labels or ()) - 1, 0)
                if labels is not None:
                    middle = x + box // 2
                    parts.append(f'<path class="edge arrow" d="M{middle} {y}V{y + gap - 1}"/>')
                    for row, label in enumerate(labels):
                        parts.append(
                            f'<text x="{middle + 8}" y="{y + 17 + _LINE * row}">{escape(label)}</text>'
                        )
                y += gap
        for side, target, start, edge_x in departures:
            lane = edge_x + side * (beside - 20 + _LANE * lanes[side][target])
            end = arrivals[side, target]
            parts.append(
                f'<path class="edge arrow" d="M{edge_x} {start}H{lane}V{end}H{edge_x + side}"/>'
            )
        height = y + _MARGIN
        return "\n".join(
            [
                (
                    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                    f'width="{width}" height="{height}" role="img" aria-labelledby="title">'
                ),
                f'<title id="title">{escape(self._title)}</title><style>{_STYLE}</style>',
                (
                    '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
                    'markerHeight="7" orient="auto"><path class="tip" d="M0 0L10 5L0 10z"/></marker></defs>'
                ),
                f'<rect class="bg" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
                f'<text class="head" x="{_MARGIN}" y="{_MARGIN + 12}">{escape(self._title)}</text>',
                *parts,
                "</svg>\n",
            ]
        )

    def _box(self, state: str, x: int, y: int, width: int, height: int) -> str:
        kind = " first" if state == self._first else " last" if state in self._final else ""
        lines = [
            f'<rect class="box{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>',
            (
                f'<text class="head" x="{x + width // 2}" y="{y + 20}" text-anchor="middle">'
                f"{escape(state)}</text>"
            ),
        ]
        for row, line in enumerate(self._inside[state]):
            text = escape(line).replace("   ", "&#160;&#160;&#160;")
            lines.append(
                f'<text class="small" x="{x + 12}" y="{y + 40 + _LINE * row}">{text}</text>'
            )
        return "".join(lines)
