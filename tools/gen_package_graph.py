"""Draws who imports whom, docs/images/packages.svg, and writes the table of packages in docs/developers/package-graph.md.

    python tools/gen_package_graph.py                           # of this tree
    python tools/gen_package_graph.py TREE PICTURE "a title"    # the picture of another one

Boxes are the packages of `penstock`; those of `penstock.runtime` and `penstock.sql` are drawn apart, and so are the
interfaces `connectors.base` and `formats.base`, and the modules of types and errors of `sql`. The packages that everybody may import share a box, and no arrow leads
to it. A box stands above all that it imports, unless they import each other. An arrow is left out if a way along others leads to the same place. Unit tests check that
the picture and the table show what the source says today.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

from package_imports import FOUNDATION, Arrow, When, arrows, cycles, reachable, read_modules

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "packages.svg"
PAGE = ROOT / "docs" / "developers" / "package-graph.md"
BEGIN, END = "<!-- packages: written by tools/gen_package_graph.py -->", "<!-- end of packages -->"
TITLE = "The packages of Penstock"

LAYERED = ("runtime", "sql")
INTERFACES = {"connectors.base", "formats.base", "sql.types", "sql.errors"}
LEFT_OUT = {"__main__", "__init__", *FOUNDATION}

# From the top down: a package imports none of a layer above its own. The tree in CONTRIBUTING.md shows the same layers.
LAYERS: dict[str, tuple[str, ...]] = {
    "Entry points and tests": ("cli", "notebook", "testing"),
    "PyFlink's APIs": ("table", "cep", "datastream"),
    "SQL, systems, formats": ("connectors", "formats", "catalogs", "sql"),
    "Sessions, executors, REST": ("session", "client", "rest", "web"),
    "Control plane": ("replay", "jobmanager", "kubernetes"),
    "Spark and stored state": ("state", "spark", "savepoint", "checkpoint"),
    "Tasks": ("drawing", "runtime"),
    "Plans and interfaces": (
        "graph",
        "connectors.base",
        "formats.base",
        "sql.expr",
        "sql.types",
        "sql.errors",
    ),
    "Foundation": tuple(reversed(FOUNDATION)),
}

BOX_HEIGHT, ROW_HEIGHT, GAP, MARGIN, TOP = 44, 104, 22, 28, 84
NARROW = 14  # of an arrow that passes by
LETTER = 8.2

# The part of the system that a package belongs to: fill and stroke.
COLOURS = {
    "api": ("#ffffff", "#334155"),
    "plans": ("#e0f2fe", "#0369a1"),
    "tasks": ("#ffedd5", "#c2410c"),
    "files": ("#dcfce7", "#15803d"),
    "control": ("#ede9fe", "#6d28d9"),
}
PARTS = {
    "graph": "plans",
    "drawing": "plans",
    "sql": "plans",
    "catalogs": "plans",
    "runtime": "tasks",
    "checkpoint": "files",
    "savepoint": "files",
    "connectors": "files",
    "formats": "files",
    "state": "files",
    "spark": "control",
    "jobmanager": "control",
    "client": "control",
    "kubernetes": "control",
    "session": "control",
    "replay": "control",
    "rest": "control",
    "web": "control",
    "cli": "control",
    "testing": "control",
}
LEGEND = {
    "api": "what programs use",
    "plans": "plans",
    "tasks": "what runs in tasks",
    "files": "systems and state",
    "control": "control",
}
WRONG = "#dc2626"
LATER = "#b45309"


# Packages without code of their own
_EMPTY = {f"penstock.{package}" for package in LAYERED}


def group_of(module: str, folders: frozenset[str]) -> str | None:
    """Return the box of a module: its package, or the folder in it that is drawn apart; other modules of a package share a box."""
    parts = module.split(".")
    if parts[0] != "penstock" or len(parts) < 2 or parts[1] in LEFT_OUT:
        return None
    inner = ".".join(parts[1:3])
    if inner in INTERFACES or (parts[1] in LAYERED and f"penstock.{inner}" in folders):
        return inner
    return parts[1]


@dataclass(frozen=True, slots=True)
class Graph:
    """The boxes, and the arrows between them by when the import happens."""

    boxes: tuple[str, ...]
    arrows: dict[Arrow, When]

    def at_import(self) -> set[Arrow]:
        """The arrows that count when a module is loaded."""
        return {arrow for arrow, when in self.arrows.items() if when is When.IMPORT}


def read_graph(tree: Path) -> Graph:
    """Return the packages of a source tree and their arrows."""
    modules = read_modules(tree / "penstock")
    folders = frozenset(module.name.rpartition(".")[0] for module in modules)

    def group(name: str) -> str | None:
        return None if name in _EMPTY else group_of(name, folders)

    boxes = sorted({box for module in modules if (box := group(module.name)) is not None})
    found = {
        arrow: min(makers.values())
        for arrow, makers in arrows(modules, group).items()
        if arrow[1] in boxes
    }
    return Graph(tuple(boxes), found)


def shortened(edges: Iterable[Arrow], circles: list[list[str]]) -> set[Arrow]:
    """Return the arrows without those that a longer way stands for; within a cycle all are kept."""
    edges = set(edges)
    together = {box: number for number, circle in enumerate(circles) for box in circle}
    kept = set()
    for start, end in edges:
        inside = start in together and together.get(end) == together[start]
        others = edges - {(start, end)}
        if inside or end not in reachable(start, others):
            kept.add((start, end))
    return kept


def heights(graph: Graph, circles: list[list[str]]) -> dict[str, int]:
    """Return the row of each box, 0 at the bottom: one above all that it imports; a cycle shares a row."""
    leader = {box: circle[0] for circle in circles for box in circle}
    below: dict[str, set[str]] = defaultdict(set)
    for start, end in graph.at_import():
        one, other = leader.get(start, start), leader.get(end, end)
        if one != other:
            below[one].add(other)
    known: dict[str, int] = {}

    def height(box: str) -> int:
        if box not in known:
            known[box] = 1 + max((height(each) for each in below[box]), default=-1)
        return known[box]

    return {box: height(leader.get(box, box)) for box in graph.boxes}


def raised(
    rows: dict[str, int], graph: Graph, drawn: set[Arrow], circles: list[list[str]]
) -> dict[str, int]:
    """Return the rows with boxes moved up to those that import them, where that shortens more arrows than it stretches."""
    rows = dict(rows)
    fixed = {box for circle in circles for box in circle}
    for box in sorted(rows, key=lambda each: (-rows[each], each)):
        above = [rows[s] for s, end in graph.arrows if end == box and rows[s] > rows[box]]
        shorter = sum(end == box for _, end in drawn)
        longer = sum(start == box for start, _ in drawn)
        if above and box not in fixed and shorter >= longer:
            rows[box] = min(above) - 1
    return rows


@dataclass(slots=True)
class Spot:
    """A box, or the place where an arrow passes a row."""

    name: str
    row: int
    width: float
    x: float = 0.0  # of its middle


class Layout:
    """Where everything goes: rows from top to bottom, long arrows as chains of spots."""

    def __init__(self, graph: Graph) -> None:
        self.circles = cycles(graph.at_import())
        drawn = shortened(graph.at_import(), self.circles)
        rows = raised(heights(graph, self.circles), graph, drawn, self.circles)
        self.spots = {
            box: Spot(box, rows[box], max(len(label) * LETTER + 26, 76))
            for box in graph.boxes
            for label in [box.rpartition(".")[2]]
        }
        self.paths: dict[Arrow, list[str]] = {}
        for start, end in sorted(drawn):
            self.paths[start, end] = self._chain(start, end)
        self.later = sorted(
            arrow for arrow, when in graph.arrows.items() if when is not When.IMPORT
        )
        self.rows: list[list[str]] = [[] for _ in range(max(rows.values()) + 1)]
        for name in sorted(self.spots):
            self.rows[self.spots[name].row].append(name)
        self._order()
        self._place()

    def _chain(self, start: str, end: str) -> list[str]:
        chain = [start]
        for row in range(self.spots[start].row - 1, self.spots[end].row, -1):
            # Arrows to the same box share their way down.
            name = f"~{end}@{row}"
            self.spots.setdefault(name, Spot(name, row, NARROW))
            chain.append(name)
        return [*chain, end]

    def _neighbours(self, *, below: bool) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.paths.values():
            for upper, lower in pairwise(path):
                if below:
                    found[upper].append(lower)
                else:
                    found[lower].append(upper)
        return found

    def _order(self) -> None:
        """Sort each row by where its neighbours stand, and keep the order with the fewest crossings."""
        down, up = self._neighbours(below=True), self._neighbours(below=False)
        best, fewest = [list(row) for row in self.rows], self._crossings()
        for turn in range(40):
            sweep = range(1, len(self.rows)) if turn % 2 else range(len(self.rows) - 2, -1, -1)
            neighbours = down if turn % 2 else up
            for row in sweep:
                self._sort(row, neighbours)
            self._swap()
            found = self._crossings()
            if found < fewest:
                best, fewest = [list(row) for row in self.rows], found
        self.rows = best

    def _sort(self, row: int, neighbours: dict[str, list[str]]) -> None:
        place = self._places()
        names = self.rows[row]

        def weight(name: str) -> float:
            near = [place[each] for each in neighbours[name] if self.spots[each].row != row]
            return sum(near) / len(near) if near else place[name]

        names.sort(key=lambda name: (weight(name), name))

    def _places(self) -> dict[str, float]:
        return {name: (at + 0.5) / len(row) for row in self.rows for at, name in enumerate(row)}

    def _swap(self) -> None:
        """Exchange neighbours in a row as long as that takes crossings away."""
        for row in self.rows:
            for at in range(len(row) - 1):
                before = self._crossings()
                row[at], row[at + 1] = row[at + 1], row[at]
                if self._crossings() >= before:
                    row[at], row[at + 1] = row[at + 1], row[at]

    def _crossings(self) -> int:
        place = {name: at for row in self.rows for at, name in enumerate(row)}
        by_row: dict[int, set[tuple[int, int]]] = defaultdict(set)
        for path in self.paths.values():
            for upper, lower in pairwise(path):
                if self.spots[upper].row != self.spots[lower].row:
                    by_row[self.spots[upper].row].add((place[upper], place[lower]))
        return sum(
            (a[0] - b[0]) * (a[1] - b[1]) < 0
            for segments in by_row.values()
            for a in segments
            for b in segments
            if a < b
        )

    def _place(self) -> None:
        """Give each spot its x: near its neighbours, in the order of its row, without overlaps."""
        for row in self.rows:
            x = 0.0
            for name in row:
                spot = self.spots[name]
                spot.x = x + spot.width / 2
                x += spot.width + GAP
        widest = max(self._right(row) for row in self.rows)
        for row in self.rows:
            shift = (widest - self._right(row)) / 2
            for name in row:
                self.spots[name].x += shift
        both = self._neighbours(below=True)
        for name, others in self._neighbours(below=False).items():
            both[name] = both[name] + others
        for _ in range(60):
            for row in self.rows:
                self._pull(row, both)
        left = min(spot.x - spot.width / 2 for spot in self.spots.values())
        for spot in self.spots.values():
            spot.x = round(spot.x - left + MARGIN, 1)

    def _right(self, row: list[str]) -> float:
        return max(self.spots[name].x + self.spots[name].width / 2 for name in row)

    def _pull(self, row: list[str], neighbours: dict[str, list[str]]) -> None:
        wanted = []
        for name in row:
            near = [self.spots[each].x for each in neighbours[name]]
            own = self.spots[name].x
            wanted.append(own if not near else (own + sum(near) / len(near)) / 2)
        # Left to right as far left as wanted, right to left as far right: the middle has no overlaps either.
        lows, edge = [], -1e9
        for name, x in zip(row, wanted, strict=True):
            half = self.spots[name].width / 2
            lows.append(max(x, edge + half))
            edge = lows[-1] + half + GAP
        highs, edge = [], 1e9
        for name, x in zip(reversed(row), reversed(wanted), strict=True):
            half = self.spots[name].width / 2
            highs.append(min(x, edge - half))
            edge = highs[-1] - half - GAP
        for name, low, high in zip(row, lows, reversed(highs), strict=True):
            self.spots[name].x = (low + high) / 2

    @property
    def width(self) -> float:
        return max(spot.x + spot.width / 2 for spot in self.spots.values()) + MARGIN

    def y(self, row: int) -> float:
        """Return the top of a row."""
        return TOP + (len(self.rows) - 1 - row) * ROW_HEIGHT


def draw(graph: Graph, title: str = TITLE) -> str:
    """Return the picture of a graph as SVG."""
    layout = Layout(graph)
    wrong = {box: number for number, circle in enumerate(layout.circles) for box in circle}
    width, height = max(layout.width, 920 if wrong else 800), layout.y(0) + BOX_HEIGHT + 64
    lines = [_head(width, height, title, graph)]
    for (start, end), path in layout.paths.items():
        inside = start in wrong and wrong.get(end) == wrong[start]
        lines.append(_inside(layout, start, end) if inside else _down(layout, path))
    lines += [_up(layout, start, end) for start, end in layout.later if _is_up(layout, start, end)]
    lines += [_box(layout, box, box in wrong) for box in graph.boxes]
    lines.append(_legend(height, wrong=bool(wrong)))
    return "\n".join([*lines, "</svg>", ""])


def _is_up(layout: Layout, start: str, end: str) -> bool:
    return layout.spots[start].row <= layout.spots[end].row


def _down(layout: Layout, path: list[str]) -> str:
    points = []
    for name in path:
        spot = layout.spots[name]
        top = layout.y(spot.row)
        points.append((spot.x, top, top + BOX_HEIGHT))
    d = f"M{points[0][0]:g} {points[0][2]:g}"
    for (x, _, bottom), (next_x, top, next_bottom) in pairwise(points):
        bend = (top - bottom) / 2
        d += f" C{x:g} {bottom + bend:g} {next_x:g} {top - bend:g} {next_x:g} {top:g}"
        if (next_x, top, next_bottom) != points[-1]:
            d += f" V{next_bottom:g}"
    return f'  <path class="arrow" d="{d}"/>'


def _inside(layout: Layout, start: str, end: str, style: str = "wrong") -> str:
    """Draw an arrow between boxes of one row: there above the boxes, back below them."""
    one, other = layout.spots[start], layout.spots[end]
    top = layout.y(one.row)
    right = one.x < other.x
    y, side = (top, -1) if right else (top + BOX_HEIGHT, 1)
    lift = side * (14 + 0.085 * abs(other.x - one.x))
    x1, x2 = (one.x + 12, other.x - 12) if right else (one.x - 12, other.x + 12)
    return f'  <path class="{style}" d="M{x1:g} {y:g} C{x1:g} {y + lift:g} {x2:g} {y + lift:g} {x2:g} {y:g}"/>'


def _up(layout: Layout, start: str, end: str) -> str:
    one, other = layout.spots[start], layout.spots[end]
    if one.row == other.row:
        return _inside(layout, start, end, "later")
    y1, y2 = layout.y(one.row), layout.y(other.row) + BOX_HEIGHT
    x1, x2 = one.x + one.width / 4, other.x + other.width / 4
    bend = max((y1 - y2) / 2, 20)
    return f'  <path class="later" d="M{x1:g} {y1:g} C{x1:g} {y1 - bend:g} {x2:g} {y2 + bend:g} {x2:g} {y2:g}"/>'


def _box(layout: Layout, box: str, wrong: bool) -> str:
    spot = layout.spots[box]
    x, y = spot.x - spot.width / 2, layout.y(spot.row)
    package, _, layer = box.partition(".")
    fill, stroke = COLOURS[PARTS.get(package, "api")]
    text = y + (28 if not layer else 33)
    above = (
        f'<text class="small mid" x="{spot.x:g}" y="{y + 16:g}">{package}</text>' if layer else ""
    )
    return (
        f'  <rect x="{x:g}" y="{y:g}" width="{spot.width:g}" height="{BOX_HEIGHT}" rx="6" fill="{fill}" '
        f'stroke="{WRONG if wrong else stroke}" stroke-width="{2.4 if wrong else 1.5}"/>{above}'
        f'<text class="mid" x="{spot.x:g}" y="{text:g}">{escape(layer or package)}</text>'
    )


def _marker(name: str, colour: str) -> str:
    return (
        f'    <marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6.5" markerHeight="6.5" '
        f'orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="{colour}"/></marker>'
    )


def _head(width: float, height: float, title: str, graph: Graph) -> str:
    count = len(cycles(graph.at_import()))
    note = (
        "boxes import boxes below them; arrows that follow from others are omitted"
        if not count
        else "red boxes import each other in a circle"
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img" aria-labelledby="title">
  <title id="title">{escape(title)}</title>
  <defs>
{_marker("end", "#64748b")}
{_marker("wrong-end", WRONG)}
{_marker("later-end", LATER)}
    <style>
      text {{ font-family: ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #0f172a; font-size: 14px; }}
      .title {{ font-size: 18px; font-weight: 600; }}
      .small {{ font-size: 11px; fill: #475569; }}
      .note {{ font-size: 12.5px; fill: #475569; }}
      .mid {{ text-anchor: middle; }}
      .arrow {{ stroke: #94a3b8; stroke-width: 1.4; fill: none; marker-end: url(#end); }}
      .wrong {{ stroke: {WRONG}; stroke-width: 1.8; fill: none; marker-end: url(#wrong-end); }}
      .later {{ stroke: {LATER}; stroke-width: 1.4; stroke-dasharray: 5 4; fill: none; marker-end: url(#later-end); }}
    </style>
  </defs>
  <rect width="{width:g}" height="{height:g}" rx="10" fill="#ffffff"/>
  <text class="title" x="{MARGIN}" y="34">{escape(title)}</text>
  <text class="note" x="{MARGIN}" y="54">{note}</text>"""


def _legend(height: float, *, wrong: bool) -> str:
    x, y, parts = float(MARGIN), height - 26, []
    for part, words in LEGEND.items():
        fill, stroke = COLOURS[part]
        parts.append(
            f'  <rect x="{x:g}" y="{y - 11:g}" width="16" height="14" rx="3" fill="{fill}" stroke="{stroke}"/>'
            f'<text class="note" x="{x + 22:g}" y="{y:g}">{words}</text>'
        )
        x = round(x + 42 + len(words) * 6.4, 1)
    shown = [("later", "up, when called")] + ([("wrong", "in a circle")] if wrong else [])
    for style, words in shown:
        parts.append(
            f'  <path class="{style}" d="M{x:g} {y - 4:g} H{x + 30:g}"/>'
            f'<text class="note" x="{x + 38:g}" y="{y:g}">{words}</text>'
        )
        x = round(x + 58 + len(words) * 6.4, 1)
    return "\n".join(parts)


def table(tree: Path) -> str:
    """Return the packages by layer, each with what it is and what it imports."""
    modules = read_modules(tree / "penstock")
    folders = frozenset(module.name.rpartition(".")[0] for module in modules)

    def group(name: str) -> str | None:
        parts = name.split(".")
        if parts[0] == "penstock" and len(parts) > 1 and parts[1] in FOUNDATION:
            return parts[1]
        return None if name in _EMPTY else group_of(name, folders)

    targets: dict[str, set[str]] = defaultdict(set)
    for start, end in arrows(modules, group):
        targets[start].add(end)
    boxes = {box for module in modules if (box := group(module.name)) is not None}
    lines = []
    for layer, packages in LAYERS.items():
        lines += [f"### {layer}", "", "| package | what it is | imports |", "|---|---|---|"]
        for box in sorted(boxes, key=lambda each: (_place(each), each)):
            if layer_of(box) == layer:
                own = targets[box] - (
                    set() if box in packages and layer == "Foundation" else set(FOUNDATION)
                )
                found = ", ".join(f"`{each}`" for each in sorted(own & boxes))
                lines.append(f"| `{box}` | {_sentence(tree, box)} | {found} |")
        lines.append("")
    return "\n".join(lines)


def layer_of(box: str) -> str:
    """Return the layer of a package, which for one inside another is that of the outer one if it has none itself."""
    package = box if any(box in each for each in LAYERS.values()) else box.partition(".")[0]
    return next(layer for layer, each in LAYERS.items() if package in each)


def _place(box: str) -> int:
    packages = LAYERS[layer_of(box)]
    return packages.index(box if box in packages else box.partition(".")[0])


def _sentence(tree: Path, box: str) -> str:
    """Return the first sentence of the docstring of a package or module."""
    path = tree / "penstock" / box.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].split())
    first, dot, _ = text.partition(". ")
    return (first + dot.strip()).replace("|", "\\|")


def page(tree: Path, text: str) -> str:
    """Return the page with the table of a tree in it."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(tree)}\n{END}{after}"


def main(arguments: list[str]) -> None:
    """Write the picture, and the table if it is of this tree."""
    tree = Path(arguments[0]) if arguments else ROOT
    picture = Path(arguments[1]) if len(arguments) > 1 else PICTURE
    title = arguments[2] if len(arguments) > 2 else TITLE
    picture.write_text(draw(read_graph(tree), title))
    if not arguments:
        PAGE.write_text(page(ROOT, PAGE.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
