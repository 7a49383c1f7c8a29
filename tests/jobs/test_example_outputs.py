"""The programs of the concept pages print what the pages say, and each page has a picture and a program."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.builders.loading import load_tool

examples = load_tool("gen_example_outputs")
SVG = "{http://www.w3.org/2000/svg}"
# What they explain is not a program of the user.
WITHOUT_PROGRAM = {"network.md", "flink-on-spark.md"}
CONCEPTS = [page for page in examples.PAGES if page.name not in WITHOUT_PROGRAM]


@pytest.mark.parametrize("page", CONCEPTS, ids=lambda page: page.name)
def test_programs_print_what_the_page_says(page: Path) -> None:
    text = page.read_text()
    rendered, programs = examples.render(text, page.name)
    assert programs > 0
    assert rendered == text, "run: python tools/gen_example_outputs.py"


@pytest.mark.parametrize("page", CONCEPTS, ids=lambda page: page.name)
def test_each_concept_has_a_picture_for_light_and_dark(page: Path) -> None:
    names = re.findall(r"\]\((\.\./images/[\w-]+\.svg)\)", page.read_text())
    assert names
    for name in names:
        picture = ET.parse(page.parent / name).getroot()
        style = picture.findtext(f"{SVG}style") or picture.findtext(f"{SVG}defs/{SVG}style") or ""
        assert picture.findtext(f"{SVG}title")
        assert "prefers-color-scheme:dark" in style.replace(" ", ""), name


def test_a_wrong_output_is_replaced() -> None:
    page = "```python\nprint(1 + 1)\n```\n\nIt prints:\n\n```text\n3\n```\n"
    assert examples.render(page, "page")[0] == page.replace("3\n", "2\n")
