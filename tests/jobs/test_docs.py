"""The pages show what jobs do today, and the README's program runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from penstock.table import EnvironmentSettings, TableEnvironment
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


def _blocks(language: str) -> list[str]:
    readme = (ROOT / "README.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", readme, re.DOTALL)


def test_the_program_of_the_readme_runs(capsys) -> None:
    (program,) = _blocks("python")
    with MiniCluster():
        exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    lines = [line.partition("> ")[2] or line for line in capsys.readouterr().out.splitlines()]
    assert sorted(lines) == ["('ann', 50, 3000)", "('ann', 9, 61000)", "('bob', 5, 2000)"]


def test_the_sql_of_the_readme_runs() -> None:
    (program,) = _blocks("sql")
    table, query = filter(None, map(str.strip, program.split(";")))
    with MiniCluster():
        tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        tables.execute_sql(table)
        with tables.execute_sql(query).collect() as rows:
            found = {(row[0].minute, row[1]): row[2] for row in rows}
    # Payments 0 to 599, one a second, of three cards: two windows of 300 s.
    expected = {
        (minute, card): sum(each % 50 for each in range(start, start + 300) if each % 3 == card)
        for minute, start in ((0, 0), (5, 300))
        for card in range(3)
    }
    assert found == expected


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 900
