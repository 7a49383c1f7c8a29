"""The pages show what jobs do today, and the README's program runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from penstock.testing import MiniCluster
from tests.builders.loading import load, load_tool

ROOT = Path(__file__).parents[2]
GENERATOR = ROOT / "tools" / "gen_how_it_works.py"


@pytest.fixture(scope="module")
def generator():
    load_tool("pipelined_recording")
    yield load(GENERATOR)
    del sys.modules["gen_how_it_works"]


def test_how_it_works_shows_what_the_program_prints_today(generator) -> None:
    page = generator.PAGE.read_text()
    assert generator.render(page, generator.blocks()) == page, (
        "run: python tools/gen_how_it_works.py"
    )


def test_the_program_of_the_readme_runs(capsys) -> None:
    program = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    with MiniCluster():
        exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    lines = [line.partition("> ")[2] or line for line in capsys.readouterr().out.splitlines()]
    assert sorted(lines) == ["('ann', 50, 3000)", "('ann', 9, 61000)", "('bob', 5, 2000)"]
