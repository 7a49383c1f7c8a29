"""The page of connectors says of every option of tables what the package declares."""

from __future__ import annotations

from tests.builders.loading import load_tool


def test_the_page_is_fresh() -> None:
    generator = load_tool("gen_sql_connectors")
    assert generator.PAGE.read_text() == generator.page(), "run: python tools/gen_sql_connectors.py"
