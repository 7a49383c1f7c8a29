"""docs/tutorials: a newcomer who does what a page says sees what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.tutorials import Reader

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
# The last one is followed in tests/connectors, with the servers that it needs.
OTHERS = {"index", "spark-application", "kafka-to-postgresql"}
PAGES = sorted(page for page in TUTORIALS.glob("*.md") if page.stem not in OTHERS)


def _follow(page: Path, directory: Path) -> None:
    with Reader(directory) as reader:
        reader.follow(page.read_text())


@pytest.mark.ci
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_reader_sees_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    _follow(page, tmp_path)


def test_a_spark_application_gets_a_stream(tmp_path: Path) -> None:
    _follow(TUTORIALS / "spark-application.md", tmp_path)
