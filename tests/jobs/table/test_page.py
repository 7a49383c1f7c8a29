"""The programs of the page about tables run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.testing import MiniCluster

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "table-api.md"


def test_the_programs_of_the_page_run_one_after_another(capsys: pytest.CaptureFixture[str]) -> None:
    names = {"__name__": "page"}
    with MiniCluster():
        for program in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
            exec(compile(program, str(PAGE), "exec"), names)
    out = capsys.readouterr().out
    assert "ann" in out
    assert "a***" in out
    assert "('b', 1)" in out
