"""docs/tutorials, and pages of docs/how-to with steps: a reader who does what they say sees what they show."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.builders.guide import guide_package
from tests.builders.tutorials import Reader

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
# The last one is followed in tests/connectors, with the servers that it needs.
OTHERS = {"index", "spark-application", "kafka-to-postgresql"}
PAGES = sorted(page for page in TUTORIALS.glob("*.md") if page.stem not in OTHERS)


HOW_TO = TUTORIALS.parent / "how-to"
FOLLOWED = [HOW_TO / f"{name}.md" for name in ("debug", "upgrade")]


def _follow(
    page: Path,
    directory: Path,
    replaced: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    with Reader(directory, replaced, environment) as reader:
        reader.follow(page.read_text())


@pytest.mark.ci
@pytest.mark.parametrize("page", [*PAGES, *FOLLOWED], ids=lambda page: page.stem)
def test_a_reader_sees_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    _follow(page, tmp_path)


@pytest.mark.ci
def test_a_connector_is_used_as_soon_as_it_is_installed(tmp_path: Path) -> None:
    """The package is on the import path, as an installer would put it there: it would ask the package index for build tools."""
    with guide_package() as installed:
        replaced = {"pip install ./lines": "echo installed"}
        environment = {"PYTHONPATH": str(installed)}
        _follow(HOW_TO / "write-a-connector.md", tmp_path, replaced, environment)


@pytest.mark.ci
def test_the_metrics_of_a_job_can_be_scraped(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = str(found.getsockname()[1])
    replaced = {"9250-9260": port, "localhost:9250": f"localhost:{port}"}
    _follow(HOW_TO / "monitor.md", tmp_path, replaced)


def test_a_spark_application_gets_a_stream(tmp_path: Path) -> None:
    _follow(TUTORIALS / "spark-application.md", tmp_path)
