"""docs/tutorials, and pages of docs/how-to with steps: a reader who does what they say sees what they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.tutorials import Reader

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
# The last one is followed in tests/connectors, with the servers that it needs.
OTHERS = {"index", "spark-application", "kafka-to-postgresql"}
PAGES = sorted(page for page in TUTORIALS.glob("*.md") if page.stem not in OTHERS)


HOW_TO = [TUTORIALS.parent / "how-to" / f"{name}.md" for name in ("debug", "upgrade")]


def _follow(page: Path, directory: Path) -> None:
    with Reader(directory) as reader:
        reader.follow(page.read_text())


@pytest.mark.ci
@pytest.mark.parametrize("page", [*PAGES, *HOW_TO], ids=lambda page: page.stem)
def test_a_reader_sees_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    _follow(page, tmp_path)


def test_a_spark_application_gets_a_stream(tmp_path: Path) -> None:
    _follow(TUTORIALS / "spark-application.md", tmp_path)
