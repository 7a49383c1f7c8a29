"""The tool that changes modules in small ways."""

from __future__ import annotations

import gc
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import mutate
from mutants import mutants

MADE = {
    "a < b": {"a <= b", "b < a"},
    "a == b": {"a != b"},
    "a in b": {"a not in b"},
    "a and b": {"a or b", "a", "b"},
    "not a": {"a"},
    "a if c else b": {"a", "b"},
    "a[0]": {"1"},
    "a[1]": {"2", "0"},
    "a[1:]": {"2", "0", ":"},
    "True": {"False"},
    "a + b": {"a - b", "a", "b"},
    "{1, 2}": {"{2}", "{1}", "{2, 2}", "{0, 2}", "{1, 3}", "{1, 1}"} - {"{2, 2}", "{0, 2}", "{1, 3}", "{1, 1}"} | {"0", "1", "2", "3"},
    "(a, b)": {"(b, a)"},
    "f(a, b)": {"f(b, a)"},
    "f(a, x=1)": {"f(a)", "2", "0"},
    "sorted(a)": {"a"},
    "a.left": {"a.right"},
    "left_key": {"right_key"},
    "[x for x in a if x]": {"[x for x in a]"},
}  # fmt: skip
KEPT = ["raise ValueError(a < b)", "import os", "'text'", "x: int", "def __repr__(self): return a < b", "x = f'{a + b}'"]  # fmt: skip


@pytest.mark.parametrize("code", MADE)
def test_each_change_of_an_expression_is_made(code: str) -> None:
    assert {each.after for each in mutants(f"y = {code}", "module.py")} == MADE[code]


@pytest.mark.parametrize("code", KEPT)
def test_errors_and_what_people_read_stay_as_they_are(code: str) -> None:
    assert not list(mutants(code, "module.py"))


def test_statements_are_left_out_and_conditions_decided() -> None:
    code = "def f(a):\n    if a:\n        g(a)\n        return\n    for x in a:\n        continue\n    return a == 1"
    found = [(each.line, each.after.splitlines()[0]) for each in mutants(code, "module.py")]
    assert found[:3] == [(2, "if not a:"), (2, "if True:"), (2, "if False:")]
    assert {(3, "pass"), (4, "pass"), (6, "pass"), (7, "return True"), (7, "return False")} <= {
        *found
    }


def test_a_case_is_dropped_and_a_guard_does_not_hold() -> None:
    code = "match a:\n    case 1 if b:\n        c = 2\n    case _:\n        c = d"
    kinds = [each.kind for each in mutants(code, "module.py")]
    assert kinds.count("case dropped") == 2
    assert "guard dropped" in kinds


SAMPLE = """
LIMIT = 3
KINDS = {"a", "b"}

class Box:
    size = 2

    def holds(self, n, more=0):
        return n + more < self.size

def made():
    return [at for at in range(5) if at < LIMIT]
"""


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that has been imported, in a repository of its own."""
    file = tmp_path / "mutated_sample.py"
    file.write_text(SAMPLE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("mutated_sample", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mutated_sample", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    return module


def applied(change: str) -> bool:
    """Apply the mutant that changes this into that: `before -> after`."""
    named = {
        f"{each.before} -> {each.after}": each for each in mutants(SAMPLE, "mutated_sample.py")
    }
    return mutate.apply(named[change])


def test_functions_that_others_have_imported_run_the_code_of_the_mutant(sample: ModuleType) -> None:
    made, box = sample.made, sample.Box()
    gc.freeze()  # as after the collection of tests
    assert applied("at < LIMIT -> at <= LIMIT")
    assert made() == [0, 1, 2, 3]
    assert applied("n + more < self.size -> n + more <= self.size")
    assert box.holds(2)


def test_values_of_modules_and_classes_and_defaults_are_taken_over(sample: ModuleType) -> None:
    made, kinds, box = sample.made, sample.KINDS, sample.Box()
    assert applied("3 -> 4")
    assert len(made()) == 4
    assert applied("{'a', 'b'} -> {'b'}")
    assert kinds == {"b"}
    assert applied("2 -> 1")
    assert box.size == 1
    assert applied("0 -> 1")
    assert not box.holds(1)
