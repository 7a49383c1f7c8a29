"""docs/tutorials: a newcomer who does what a page says sees what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.tutorials import Reader

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
#: Followed elsewhere, with the servers that they need
WITH_SERVERS = {"kafka-to-postgresql.md"}
PAGES = sorted(set(TUTORIALS.glob("*.md")) - {TUTORIALS / name for name in WITH_SERVERS})


@pytest.mark.ci
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_reader_sees_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        reader.follow(page.read_text())
