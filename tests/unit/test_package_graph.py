"""The picture of the packages shows what the source says today."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from tests.unit.test_import_rules import MAY_IMPORT

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "CONTRIBUTING.md"


@pytest.fixture
def picture(monkeypatch):
    """The tool that draws it."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    spec = importlib.util.spec_from_file_location(
        "gen_package_graph", ROOT / "tools" / "gen_package_graph.py"
    )
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


def test_the_picture_shows_the_packages_of_today(picture):
    drawn = picture.draw(picture.read_graph(ROOT))
    assert picture.PICTURE.read_text() == drawn, "run: python tools/gen_package_graph.py"


def test_the_table_shows_the_packages_of_today(picture):
    text = picture.PAGE.read_text()
    assert text == picture.page(ROOT, text), "run: python tools/gen_package_graph.py"


def test_every_package_is_in_a_layer_and_imports_none_of_a_higher_one(picture):
    layers = list(picture.LAYERS)
    above = [
        (package, target)
        for package, targets in MAY_IMPORT.items()
        for target in targets
        if layers.index(picture.layer_of(target)) < layers.index(picture.layer_of(package))
    ]
    assert above == []


def test_the_tree_in_the_guide_is_the_real_one(picture):
    text = GUIDE.read_text()
    tree = text[text.index("```text\npenstock/") :].split("```")[1].splitlines()[2:]
    packages = [line for line in tree if line.startswith("  ")]
    named = [re.findall(r"(\w+)/", line.split("   ")[0]) for line in packages]
    folders = {path.parent.name for path in (ROOT / "penstock").glob("*/__init__.py")}
    assert sorted(name for line in named for name in line) == sorted(folders)
    layers = list(picture.LAYERS)
    places = [[layers.index(picture.layer_of(name)) for name in line] for line in named]
    assert all(len(set(line)) == 1 for line in places), places
    assert [line[0] for line in places] == sorted(line[0] for line in places)
    others = " ".join(line for line in tree if not line.startswith("  "))
    suites = re.search(r"tests/\{([\w,]+)\}", others)[1].split(",")
    assert [name for name in re.findall(r"(\w+)/", others) if not (ROOT / name).is_dir()] == []
    assert [name for name in suites if not (ROOT / "tests" / name).is_dir()] == []


def test_a_picture_has_circles_in_red_and_leaves_out_what_a_longer_way_stands_for(picture):
    edges = {
        ("a", "b"): picture.When.IMPORT,
        ("b", "c"): picture.When.IMPORT,
        ("a", "c"): picture.When.IMPORT,
    }
    straight = picture.Graph(("a", "b", "c"), edges)
    assert picture.shortened(edges, []) == {("a", "b"), ("b", "c")}
    assert 'class="wrong"' not in picture.draw(straight)
    bent = picture.Graph(("a", "b", "c"), {**edges, ("c", "a"): picture.When.IMPORT})
    assert picture.draw(bent).count('<path class="wrong" d="M') == 5  # four arrows and the legend
    later = picture.Graph(("a", "b", "c"), {**edges, ("c", "a"): picture.When.CALL})
    assert 'class="wrong"' not in picture.draw(later)
    assert picture.draw(later).count('<path class="later" d="M') == 2  # one arrow and the legend
