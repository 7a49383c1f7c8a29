"""The picture of the packages shows what the source says today."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


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
