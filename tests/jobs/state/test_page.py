"""docs/how-to/state-tables.md and examples/bootstrap_state.py: the programs run, the methods exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from penstock import state

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "state-tables.md"


def test_the_programs_of_the_page_run(cluster, tmp_path, capsys):
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(programs) == 7
    names: dict[str, object] = {"__name__": "page", "directory": str(tmp_path)}
    for program in programs:
        exec(compile(program, "state-tables.md", "exec"), names)
    assert "  items            list of String, 2 entries" in capsys.readouterr().out


def test_methods_that_the_page_names_exist():
    tables = [
        line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")
    ]
    named = re.findall(r"`(\w+)", " ".join(tables))
    assert "put_aggregating" in named
    members = {*dir(state.Snapshot), *dir(state.SavepointWriter)}
    assert [name for name in named if name not in members] == []


def test_the_example_gives_a_voucher(cluster, capsys):
    runpy.run_path(str(ROOT / "examples" / "bootstrap_state.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "voucher for ann" in out
    assert re.search(r"points +ann changed +980 +10", out)
