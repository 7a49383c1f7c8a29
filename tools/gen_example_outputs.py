"""Runs the programs of pages and writes what they print below them.

    python tools/gen_example_outputs.py

A program is a block of Python that is followed by "It prints:" and a block of text. A test checks that the pages show what
their programs print today.
"""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

from penstock.testing import MiniCluster

PAGES = sorted((Path(__file__).parents[1] / "docs" / "concepts").glob("*.md"))

_PROGRAM = re.compile(
    r"(?P<program>```python\n(?P<code>(?:(?!```).)*)```\n\nIt prints:\n\n)```text\n(?:(?!```).)*```\n",
    re.DOTALL,
)


def run(code: str, name: str) -> str:
    """Return what a program prints, without Spark."""
    printed = io.StringIO()
    with MiniCluster(), redirect_stdout(printed):
        exec(compile(code, name, "exec"), {"__name__": "page"})
    return printed.getvalue()


def render(page: str, name: str) -> tuple[str, int]:
    """Return the page with the output of its programs, and how many there are."""

    def shown(found: re.Match[str]) -> str:
        return f"{found['program']}```text\n{run(found['code'], name)}```\n"

    return _PROGRAM.subn(shown, page)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(render(path.read_text(), path.name)[0])
