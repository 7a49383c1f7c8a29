"""Draws a JobGraph: as a text tree for a terminal, as an SVG from left to right for a page.

>>> shorten("a name that is far too long for a box", 12)
'a name that…'
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from html import escape

from penstock.graph.job_graph import JobEdge, JobGraph, JobVertex

_WIDTH, _LINE, _PADDING = 260, 18, 12
_GAP_X, _GAP_Y, _MARGIN = 110, 28, 20
_LETTERS = 34  # characters per line of a box
_TIP = """\
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">\
<path d="M0 0 8 4 0 8z" fill="#5b7083"/></marker></defs>"""
_STYLE = """\
.box{fill:#f6f8fb;stroke:#5b7083;stroke-width:1.2}.source{fill:#e3f1e7}.sink{fill:#fdeede}text{font:13px system-ui,sans-serif;fill:#1d2833}
.head{font-weight:600}.small{font-size:11px;fill:#5b7083}.edge{fill:none;stroke:#5b7083;stroke-width:1.4;marker-end:url(#tip)}
@media(prefers-color-scheme:dark){.box{fill:#1f2933;stroke:#8aa0b3}.source{fill:#1d3326}.sink{fill:#3a2b1a}text{fill:#e6edf3}.small{fill:#9fb3c4}.edge{stroke:#8aa0b3}}"""


def shorten(text: str, letters: int) -> str:
    """Return a text of at most `letters` characters."""
    line = " ".join(text.split())
    return line if len(line) <= letters else f"{line[: letters - 1].rstrip()}…"


def count_slots(graph: JobGraph) -> int:
    """Return the number of slots of the job: per slot sharing group, the parallelism of its widest vertex."""
    widest: dict[str, int] = defaultdict(int)
    for vertex in graph.vertices:
        group = vertex.slot_sharing_group
        widest[group] = max(widest[group], vertex.parallelism)
    return sum(widest.values())


# Text tree.


def draw_tree(graph: JobGraph) -> str:
    """Return the graph as lines of text: sources at the left, their consumers below them.

    A vertex with several inputs is drawn below the first one; below the others only its number appears.
    """
    numbers = {vertex.id: number for number, vertex in enumerate(graph.vertices, 1)}
    outgoing: dict[str, list[JobEdge]] = defaultdict(list)
    for edge in graph.edges:
        outgoing[edge.source_vertex].append(edge)
    subtasks = sum(vertex.parallelism for vertex in graph.vertices)
    vertices = _count(len(graph.vertices), "vertex", "vertices")
    counts = f"{vertices}, {_count(subtasks, 'subtask')}, {_count(count_slots(graph), 'slot')}"
    lines = [f"{graph.job_name}: {graph.runtime_mode}, {counts}"]
    drawn: set[str] = set()

    def draw(vertex: JobVertex, how: str, before: str, last: bool) -> Iterator[str]:
        head = f"{before}{'└─' if last else '├─'} {how}"
        if vertex.id in drawn:
            yield f"{head}[{numbers[vertex.id]}] above"
            return
        drawn.add(vertex.id)
        yield f"{head}[{numbers[vertex.id]}] {vertex.name}  x{vertex.parallelism}{_note(vertex)}"
        below = before + ("   " if last else "│  ")
        edges = outgoing[vertex.id]
        for position, edge in enumerate(edges):
            label = f"{_label(edge)} → "
            yield from draw(
                graph.vertex(edge.target_vertex), label, below, position == len(edges) - 1
            )

    fed = {edge.target_vertex for edge in graph.edges}
    roots = [vertex for vertex in graph.vertices if vertex.id not in fed]
    for position, root in enumerate(roots):
        lines += draw(root, "", "", position == len(roots) - 1)
    return "\n".join(lines)


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _note(vertex: JobVertex) -> str:
    uids = [operator.uid for operator in vertex.operators if operator.uid]
    notes = [f"uid {', '.join(uids)}"] if uids else []
    if vertex.slot_sharing_group != "default":
        notes.append(f"group {vertex.slot_sharing_group}")
    return f"  ({'; '.join(notes)})" if notes else ""


def _label(edge: JobEdge) -> str:
    side = f" side output '{edge.side_tag}'" if edge.side_tag else ""
    return f"{edge.partitioning.NAME}{side}"


# SVG.


def draw_svg(graph: JobGraph) -> str:
    """Return the graph as an SVG document, from left to right."""
    boxes = _layout(graph)
    width = max(x for x, _, _ in boxes.values()) + _WIDTH + _MARGIN
    height = max(y + h for _, y, h in boxes.values()) + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{escape(graph.job_name)}</title><style>{_STYLE}</style>",
        _TIP,
    ]
    parts += [_svg_edge(edge, boxes) for edge in graph.edges]
    parts += [_svg_box(vertex, *boxes[vertex.id]) for vertex in graph.vertices]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _layout(graph: JobGraph) -> dict[str, tuple[int, int, int]]:
    """Return x, y and height of each vertex: columns by the longest path from a source, ordered by their inputs' positions."""
    column: dict[str, int] = {}
    inputs: dict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
        inputs[edge.target_vertex].append(edge.source_vertex)
    for vertex in graph.vertices:  # in topological order
        column[vertex.id] = max((column[each] + 1 for each in inputs[vertex.id]), default=0)
    boxes: dict[str, tuple[int, int, int]] = {}
    for number in range(max(column.values()) + 1):
        members = [vertex for vertex in graph.vertices if column[vertex.id] == number]
        members.sort(key=lambda vertex: _middle([boxes[each] for each in inputs[vertex.id]]))
        y = _MARGIN
        for vertex in members:
            height = 2 * _PADDING + _LINE * (len(vertex.operators) + 1)
            wanted = _middle([boxes[each] for each in inputs[vertex.id]]) - height / 2
            y = max(y, round(wanted))
            boxes[vertex.id] = (_MARGIN + number * (_WIDTH + _GAP_X), y, height)
            y += height + _GAP_Y
    return boxes


def _middle(boxes: list[tuple[int, int, int]]) -> float:
    return sum(y + height / 2 for _, y, height in boxes) / len(boxes) if boxes else 0.0


def _svg_edge(edge: JobEdge, boxes: dict[str, tuple[int, int, int]]) -> str:
    x1, y1, h1 = boxes[edge.source_vertex]
    x2, y2, h2 = boxes[edge.target_vertex]
    x1, y1, y2 = x1 + _WIDTH, y1 + h1 // 2, y2 + h2 // 2
    bend = (x2 - x1) // 2
    path = f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
    label = escape(shorten(_label(edge), 18))
    middle = f'x="{(x1 + x2) // 2}" y="{(y1 + y2) // 2 - 6}" text-anchor="middle"'
    return f'<path class="edge" d="{path}"/><text class="small" {middle}>{label}</text>'


def _svg_box(vertex: JobVertex, x: int, y: int, height: int) -> str:
    kinds = {operator.kind for operator in vertex.operators}
    kind = "source" if "source" in kinds else "sink" if "sink" in kinds else ""
    lines = [
        f'<g><title>{escape(vertex.name)}</title><rect class="box {kind}" x="{x}" y="{y}" width="{_WIDTH}" height="{height}" rx="6"/>'
    ]
    at = y + _PADDING + _LINE - 4
    for operator in vertex.operators:
        text = escape(shorten(operator.name, _LETTERS))
        lines.append(f'<text class="head" x="{x + _PADDING}" y="{at}">{text}</text>')
        at += _LINE
    facts = f"parallelism {vertex.parallelism}, max {vertex.max_parallelism}"
    lines.append(f'<text class="small" x="{x + _PADDING}" y="{at}">{facts}</text></g>')
    return "".join(lines)
