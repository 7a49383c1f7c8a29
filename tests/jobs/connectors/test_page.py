"""docs/how-to/sources-and-sinks.md: its connectors are put through the conformance kit, by the classes that the page has."""

from __future__ import annotations

import re
import types
from pathlib import Path

from tests.builders.conformance import in_mode
from tests.builders.modes import MODES

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "sources-and-sinks.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)

# One module whose classes travel by value, as those of a script do.
page = types.ModuleType("__main__")
exec(compile("\n".join(PROGRAMS), str(PAGE), "exec"), page.__dict__)

TestSquares = page.TestSquares
TestLineFiles = page.TestLineFiles
TestDatabase = page.TestDatabase
for number, tests in enumerate((TestSquares, TestLineFiles, TestDatabase)):
    tests.rules = in_mode(MODES[number % 2], tests.rules)


def test_each_connector_of_the_page_has_less_than_60_lines_of_code() -> None:
    for name in ("class Squares(Source)", "class LineFiles(Sink)", "class Database(Sink)"):
        (program,) = [text for text in PROGRAMS if name in text]
        assert len([line for line in program.splitlines() if line]) < 60, name
