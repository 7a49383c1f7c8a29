"""What all tests share: where they keep files, and what Hypothesis may depend on."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.builders import cases, examples, quarantine, selection, thread_delays
from tests.builders.clusters import own_cluster

examples.register_profiles()

_MEMORY = Path("/dev/shm")
_NEEDED_BYTES = 4 << 30  # twice what the tests have at a time

# No test takes the power away, so files need not get to a disk: with RocksDB, waiting for it was two thirds of the time.
if (
    "TMPDIR" not in os.environ
    and os.access(_MEMORY, os.W_OK)
    and shutil.disk_usage(_MEMORY).free > _NEEDED_BYTES
):
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--case", metavar="NAME", help="of tests with many cases, run this one alone")
    thread_delays.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    cases.choose(config.getoption("--case"))
    thread_delays.register(config)
    config.addinivalue_line(
        "markers", "ci: `make test` runs this test, although its suite starts processes"
    )
    config.addinivalue_line("markers", "full: only `make test-full` runs this test")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in quarantine.report():
        terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Keep the garbage collector away from what stays until the end: it would search all tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Choose what `make test` runs, before `-m` drops the rest."""
    selection.mark_full(items)
    quarantine.mark(items)


@pytest.fixture(scope="session", autouse=True)
def penstock_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Jobs of tests are noted in a directory of their own, not in the user's home."""
    os.environ["PENSTOCK_HOME"] = str(tmp_path_factory.mktemp("penstock-home"))


@pytest.fixture
def cluster():
    """Programs of this test run in this process."""
    with own_cluster() as running:
        yield running
