"""The life of a query shows what the planner does today."""

from __future__ import annotations

import pytest

from penstock.sql.rules import optimizer
from tests.builders.loading import load_tool

generator = load_tool("gen_query_life")


@pytest.fixture(scope="module")
def blocks():
    return generator.blocks()


def test_the_page_shows_what_the_planner_does_today(blocks) -> None:
    page = generator.PAGE.read_text()
    assert generator.render(page, blocks) == page, "run: python tools/gen_query_life.py"


def test_recording_leaves_the_optimizer_as_it_was(blocks) -> None:
    rules = [rule for rule in vars(optimizer).values() if callable(rule)]
    assert [
        rule.__qualname__ for rule in (*rules, *optimizer.RULES) if "<locals>" in rule.__qualname__
    ] == []
