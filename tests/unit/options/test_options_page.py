"""The reference page says of every option what the package does."""

from __future__ import annotations

from tests.builders.loading import load_tool


def test_the_page_is_fresh():
    generator = load_tool("gen_options")
    assert generator.PAGE.read_text() == generator.page(), "run: python tools/gen_options.py"
