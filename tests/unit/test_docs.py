"""The pages say what the program does: generated parts are fresh, links lead somewhere, the README's program runs."""

from __future__ import annotations

import importlib.util
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from penstock.testing.mini_cluster import MiniCluster

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
GENERATOR = ROOT / "tools" / "gen_how_it_works.py"


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("gen_how_it_works", GENERATOR)
    module = importlib.util.module_from_spec(spec)
    sys.modules["gen_how_it_works"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["gen_how_it_works"]


def test_how_it_works_shows_what_the_program_prints_today(generator) -> None:
    page = generator.PAGE.read_text()
    assert generator.render(page, generator.blocks()) == page, (
        "run: python tools/gen_how_it_works.py"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", page.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_pages_name_exist(page: Path) -> None:
    named = re.findall(r"`((?:penstock|tools|examples|tests)/[\w/.]+)`", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_picture_of_the_architecture_is_an_image() -> None:
    picture = ET.parse(ROOT / "docs" / "images" / "architecture.svg").getroot()
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"


def test_the_program_of_the_readme_runs(capsys) -> None:
    program = re.findall(r"```python\n(.*?)```", PAGES[0].read_text(), re.DOTALL)[0]
    with MiniCluster():
        exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    lines = [line.partition("> ")[2] or line for line in capsys.readouterr().out.splitlines()]
    assert sorted(lines) == ["('ann', 50, 3000)", "('ann', 9, 61000)", "('bob', 5, 2000)"]
