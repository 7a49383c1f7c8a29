"""docs/how-to/testing.md: its programs run."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "testing.md"


def test_the_programs_of_the_page_run():
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(programs) == 5
    names: dict[str, object] = {"__name__": "page"}
    for program in programs:
        exec(compile(program, "testing.md", "exec"), names)
