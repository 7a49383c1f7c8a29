"""docs/how-to/spark-results.md: its programs run, in the session of the tests."""

from __future__ import annotations

import re
import types
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "spark-results.md"


def test_the_programs_of_the_page_run():
    # One module whose functions and classes travel by value, as those of a script do.
    page = types.ModuleType("__main__")
    for program in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(program, PAGE.name, "exec"), page.__dict__)
