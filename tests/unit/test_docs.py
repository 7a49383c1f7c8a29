"""The pages: links lead somewhere, and files that are named are there."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


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
