"""The site of the documentation: it builds without a warning, and loads nothing from other hosts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: attributes that make a browser load something, by tag; links of `<a>` are followed only by readers
LOADED = {
    "link": "href",
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "object": "data",
}


class Loads(HTMLParser):
    """Collects what a page makes a browser load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        target = values.get(LOADED.get(tag, ""))
        if target and values.get("rel") not in {"canonical", "next", "prev"}:
            self.found.append(target)
        self.anchors.add(values.get("id") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    built = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (built.returncode, built.stderr) == (0, "")
    return folder


def test_it_builds_without_a_warning_and_loads_nothing_from_other_hosts(site):
    foreign = {}
    for page in site.rglob("*.html"):
        loads = Loads()
        loads.feed(page.read_text())
        if others := [each for each in loads.found if re.match(r"(?:\w+:)?//", each)]:
            foreign[page.name] = others
        # Material loads Mermaid from another host as soon as a page has a diagram of it.
        if 'class="mermaid"' in page.read_text():
            foreign[page.name] = ["mermaid"]
    assert foreign == {}
    styles = "".join(each.read_text() for each in site.rglob("*.css"))
    assert re.findall(r"url\(['\"]?(?:\w+:)?//[^)]*|@import[^;]*//[^;]*", styles) == []


def test_llms_txt_lists_the_pages_of_the_site(site):
    listed = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text())
    assert len(listed) > 50
    assert [each for each in listed if not (site / each).exists()] == []


def test_classes_are_shown_with_their_docstrings_and_examples(site):
    page = (site / "reference" / "api" / "datastream.html").read_text()
    assert 'id="penstock.datastream.StreamExecutionEnvironment' in page
    assert "The context of a program" in page
    assert "&gt;&gt;&gt; " not in re.sub(r"<pre>.*?</pre>", "", page, flags=re.DOTALL)
    assert '<span class="gp">&gt;&gt;&gt; </span>' in page
