"""Pages that tools generate are up to date, and nothing that they list is without a meaning."""

from __future__ import annotations

import pytest

from tests.builders.loading import load_tool

PAGES = (
    "gen_errors",
    "gen_metrics",
    "gen_rest_routes",
    "gen_sql_functions",
    "gen_sql_statements",
)


@pytest.fixture
def tool(request, monkeypatch):
    return load_tool(request.param)


@pytest.mark.parametrize("tool", PAGES, indirect=True, ids=PAGES)
def test_the_page_is_what_the_source_says_today(tool):
    assert tool.PAGE.read_text() == tool.page(), f"run: python tools/{tool.__name__}.py"


def test_every_error_has_advice():
    tool = load_tool("gen_errors")
    assert sorted(set(tool.classes()) ^ set(tool.advice())) == []


def test_every_metric_has_a_meaning():
    tool = load_tool("gen_metrics")
    assert sorted({each.name for each in tool.metrics()} ^ set(tool.meanings())) == []


def test_every_sql_function_has_a_meaning():
    assert load_tool("gen_sql_functions").missing_meanings() == []


def test_every_statement_has_examples_that_are_parsed():
    tool = load_tool("gen_sql_statements")
    assert {entry.kind for entry in tool.ENTRIES} == tool.kinds()
    assert tool.wrong_examples() == []


def test_every_public_name_is_on_a_page_of_the_api():
    tool = load_tool("gen_api_reference")
    wanted = dict(tool.pages())
    found = {path: path.read_text() for path in tool.FOLDER.glob("*.md")}
    assert found == wanted, "run: python tools/gen_api_reference.py"
