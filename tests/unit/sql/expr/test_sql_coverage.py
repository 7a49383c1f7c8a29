"""docs/reference/sql-coverage.md: as the program is, and complete."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from penstock.errors import UnsupportedOperationError
from penstock.runtime.columnar.expressions import compiled_functions
from penstock.sql.expr.functions import resolve
from penstock.sql.expr.functions.definitions import DEFINITIONS
from penstock.sql.expr.functions.missing import MISSING

ROOT = Path(__file__).parents[4]


def load() -> ModuleType:
    """The tool that writes the page."""
    spec = importlib.util.spec_from_file_location(
        "gen_sql_coverage", ROOT / "tools" / "gen_sql_coverage.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = load()


def test_the_page_is_as_the_program_is() -> None:
    assert tool.PAGE.read_text() == tool.page(), "run tools/gen_sql_coverage.py"


def test_every_missing_function_has_a_reason() -> None:
    entries = [entry for chapter in tool.CHAPTERS for entry in tool.entries(chapter)]
    assert [entry.name for entry in entries if not entry.there and not entry.reason] == []


def test_every_function_that_can_be_typed_can_be_run() -> None:
    rewritten = tool._REWRITTEN
    assert sorted(set(DEFINITIONS) - compiled_functions() - rewritten) == []


@pytest.mark.parametrize("name", sorted(MISSING))
def test_missing_functions_are_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=name):
        resolve(name, [])
