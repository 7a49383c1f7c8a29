"""The tool that runs the suites."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import run_tests
from tools.run_tests import Suite, run_lanes

TESTS = Path(__file__).parents[1]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of tests with a suite that passes, one that fails and one without tests that are selected."""
    for name, body in {
        "good": "def test_x(): pass",
        "bad": "def test_x(): assert False",
        "left": "import pytest\n@pytest.mark.full\ndef test_x(): assert False",
    }.items():
        folder = tmp_path / "tests" / name
        folder.mkdir(parents=True)
        (folder / f"test_{name}.py").write_text(body)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = full\n")
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    return tmp_path


def test_all_suites_run_although_one_fails(folders, capsys):
    lanes = [[Suite("bad", ("bad",)), Suite("good", ("good",))], [Suite("left", ("left",))]]
    outcomes = run_lanes(lanes, ["-m", "not full"])
    assert [(each.name, each.passed) for each in outcomes] == [
        ("bad", False),
        ("good", True),
        ("left", True),
    ]
    assert outcomes[1].summary.startswith("1 passed")
    assert "=== left ===" in capsys.readouterr().out


def test_a_failing_suite_fails_the_run_and_full_tests_run_on_demand(folders, monkeypatch, capsys):
    monkeypatch.setattr(run_tests, "IN_PROCESS", (Suite("good", ("good",)),))
    monkeypatch.setattr(run_tests, "WITH_PROCESSES", (Suite("left", ("left",)),))
    assert run_tests.main([]) == 0
    assert run_tests.main(["--full"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("left")
    assert "FAILED" in last


def test_every_folder_of_tests_belongs_to_a_suite():
    with_tests = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")}
    assert sorted(folder for suite in run_tests.SUITES for folder in suite.folders) == sorted(
        with_tests
    )


def test_the_tool_runs_as_a_script():
    shown = subprocess.run(
        [sys.executable, run_tests.__file__, "--help"], capture_output=True, text=True, check=True
    )
    assert "--full" in shown.stdout
