"""The arrows of import between the packages, read from the source text: which there may be, and that none leads back."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import penstock
from tests.builders.cases import by_name, check_all
from tests.builders.loading import load_tool

ROOT = Path(penstock.__file__).parent


imports = load_tool("package_imports")
When = imports.When

# package -> the packages of penstock that it may import, besides itself and penstock.errors; with a package, all in it
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "pyflink_compat": set(),  # only gives other names to modules
    "common": set(),
    "metrics": set(),
    "files": {"common"},
    "windowing": {"common"},
    "connectors": {"files", "metrics", "common"},
    "graph": {"connectors", "common"},
    "checkpoint": {"graph", "connectors", "files", "common"},
    "savepoint": {"runtime", "checkpoint", "graph", "windowing", "files", "common"},
    "datastream": {"graph", "connectors", "windowing", "common"},
    "table.types": {"common"},
    "table.expressions": {"table.types", "common"},
    "columnar.specs": {"graph", "common", "table.types", "table.expressions"},
    "columnar": {
        "columnar.specs",
        "runtime",
        "graph",
        "connectors",
        "cep",
        "windowing",
        "metrics",
        "common",
        "table.types",
        "table.expressions",
    },
    "table": {
        "table.types",
        "table.expressions",
        "columnar",
        "datastream",
        "cep",
        "graph",
        "connectors",
        "windowing",
        "files",
        "common",
    },
    "kubernetes": {"common"},
    "cep": {"runtime", "graph", "common", "datastream"},
    "spark": {"runtime", "graph", "checkpoint", "files", "common", "pyflink_compat"},
    "jobmanager": {
        "spark",
        "runtime",
        "savepoint",
        "checkpoint",
        "graph",
        "connectors",
        "files",
        "common",
        "pyflink_compat",
    },
    "state": {"savepoint", "runtime", "checkpoint", "graph", "windowing", "files", "common"},
    "replay": {
        "jobmanager",
        "runtime",
        "checkpoint",
        "graph",
        "connectors",
        "files",
        "common",
        "pyflink_compat",
    },
}
# The layers of penstock.runtime, from the bottom up: what they may import of each other.
_RUNTIME: dict[str, set[str]] = {
    "runtime.records": {"runtime.isolation", "runtime.user_code"},
    "runtime.metrics": set(),
    "runtime.isolation": set(),
    "runtime.user_code": set(),
    "runtime.state": {"runtime.records", "runtime.user_code"},
    # Neither backend knows the other, and only this one module knows that there are two.
    "runtime.state.hashmap": {"runtime.state", "runtime.records"},
    "runtime.state.rocksdb": {"runtime.state", "runtime.records"},
    "runtime.state.backends": {"runtime.state", "runtime.state.hashmap", "runtime.state.rocksdb"},
    "runtime.time": {"runtime.state", "runtime.records", "runtime.user_code"},
    "runtime.network": {"runtime.records", "runtime.user_code"},
    "runtime.operators": {
        "runtime.records",
        "runtime.metrics",
        "runtime.isolation",
        "runtime.user_code",
        "runtime.state",
        "runtime.time",
    },
    "runtime.inspection": {"runtime.records", "runtime.user_code"},
    "runtime.task": {"runtime"},
}
_BELOW_RUNTIME = {"graph", "connectors", "windowing", "common", "metrics"}
MAY_IMPORT |= {layer: allowed | _BELOW_RUNTIME for layer, allowed in _RUNTIME.items()}
# These run things or serve them, so they stand above the packages in the table.
TOP = {"cli", "rest", "session", "web", "testing"}
PACKAGES = set(MAY_IMPORT) | TOP

# The arrows that point up, by module. None of them is there when the module is loaded: they lie inside functions, or are
# for the type checker.
UPWARD: dict[str, dict[str, str]] = {
    "penstock.datastream._execution": {
        "jobmanager": "execute() hands the program to the engine",
        "session": "or sends it to a session",
    },
    "penstock.jobmanager.launcher": {"rest": "a job that is submitted is made reachable"},
    "penstock.state.inputs": {"spark": "state is written from DataFrames"},
    "penstock.state.tables": {"spark": "tables of state become DataFrames"},
}
# Packages that reach each other, by arrows of any kind. A new circle is not a way out: move what both sides need below them.
CYCLES: list[list[str]] = []


def package_of(name: str) -> str | None:
    """The package that a module, or a name in it, belongs to: the longest that has a rule."""
    parts = name.split(".")
    if parts[0] != "penstock":
        return None
    for end in range(len(parts), 1, -1):
        package = ".".join(parts[1:end])
        if package in PACKAGES:
            return package
    return None


def within(package: str, allowed: set[str]) -> bool:
    """Whether a package is one of these, or in one of them; `runtime.state` is what both backends are built on."""
    if package.startswith("runtime.state.") and "runtime" not in allowed:
        return package in allowed
    return any(package == each or package.startswith(f"{each}.") for each in allowed)


def broken_rules(module) -> list[str]:
    """What a module imports against the rules."""
    package = package_of(module.name)
    broken = []
    for each in module.imports:
        if each.name.split(".")[0] == "pyspark" and package not in {"spark", "testing"}:
            if each.when is not When.TYPES:
                broken.append(f"line {each.line}: imports {each.name}: only penstock.spark may")
            continue
        target = package_of(each.name)
        if target is None or package not in MAY_IMPORT:
            continue
        if target in {package, "errors"} or within(target, MAY_IMPORT[package]):
            continue
        upward = UPWARD.get(module.name, {})
        if each.when is not When.IMPORT and within(target, set(upward)):
            continue
        broken.append(f"line {each.line}: {package} imports {each.name}")
    return broken


def circles(modules) -> list[list[str]]:
    """The packages that reach each other, by arrows of any kind."""
    found: list[list[str]] = imports.cycles(imports.arrows(modules, package_of))
    return found


@cache
def modules():
    """All modules of penstock by name. Reading them takes seconds, so it waits until a test needs them."""
    return by_name(imports.read_modules(ROOT), lambda module: module.name)


def test_a_module_imports_only_what_its_package_may() -> None:
    def check(module) -> None:
        assert broken_rules(module) == []

    check_all(modules(), check)


def test_every_package_has_a_rule() -> None:
    roots = {
        "penstock",
        "penstock.__main__",
        "penstock.runtime",
    }  # of these only the first lines count
    assert [name for name in modules() if package_of(name) is None and name not in roots] == []


def test_importing_penstock_loads_nothing_else() -> None:
    roots = [modules()[name] for name in ("penstock", "penstock.runtime")]
    assert [
        each.name for m in roots for each in m.imports if each.name.startswith("penstock")
    ] == []


def test_no_packages_import_each_other_in_a_circle() -> None:
    """Not even inside functions, or for the type checker."""
    arrows = imports.arrows(modules().values(), package_of)
    found = circles(modules().values())
    makers = {
        arrow: sorted(by)
        for arrow, by in arrows.items()
        for circle in found
        if set(arrow) <= set(circle)
    }
    assert found == CYCLES, makers


def test_an_arrow_that_points_up_is_listed_only_while_it_is_there() -> None:
    def check(module: str) -> None:
        found = {package_of(each.name) for each in modules()[module].imports}
        assert set(UPWARD[module]) <= found

    check_all(by_name(UPWARD, str), check)


# The checker itself


def module_of(package: str, source: str):
    return imports.read_module(source, f"penstock.{package}.module", is_package=False)


@pytest.mark.parametrize(
    ("package", "source", "is_broken"),
    [
        pytest.param("runtime.task", "import pyspark", True, id="spark in a task"),
        pytest.param(
            "runtime.task", "def f():\n    import pyspark.sql", True, id="spark inside a function"
        ),
        pytest.param(
            "runtime.task", "from penstock import spark", True, id="from penstock import package"
        ),
        pytest.param("graph", "from penstock.runtime.time import x", True, id="a task in a plan"),
        pytest.param("graph", "from ..runtime.time import x", True, id="relative, upwards"),
        pytest.param(
            "graph",
            "if TYPE_CHECKING:\n    from penstock.runtime.time import x",
            True,
            id="upwards, for the type checker only",
        ),
        pytest.param(
            "graph",
            "def f():\n    from penstock.runtime.time import x",
            True,
            id="upwards, inside a function",
        ),
        pytest.param("runtime.task", "from ... import datastream", True, id="relative, package"),
        pytest.param("datastream", "import penstock.jobmanager", True, id="engine at import time"),
        pytest.param(
            "datastream",
            "def f():\n    import penstock.jobmanager",
            True,
            id="engine at call time, in a module that is not listed",
        ),
        pytest.param("jobmanager", "import pyspark", True, id="spark outside of penstock.spark"),
        pytest.param(
            "runtime.state", "from penstock.runtime.operators import x", True, id="layers, upwards"
        ),
        pytest.param(
            "runtime.state",
            "def f():\n    from penstock.runtime.time.timers import TimerQueue",
            True,
            id="layers, upwards inside a function",
        ),
        pytest.param(
            "runtime.state.hashmap",
            "from penstock.runtime.state.rocksdb.store import after",
            True,
            id="a backend in the other",
        ),
        pytest.param(
            "runtime.state",
            "from penstock.runtime.state.rocksdb.store import after",
            True,
            id="a backend in what both share",
        ),
        pytest.param(
            "runtime.operators",
            "from penstock.runtime.state.hashmap.table import HashMapTable",
            True,
            id="an operator that knows a backend",
        ),
        pytest.param("runtime.task", "from penstock.common import x", False, id="common"),
        pytest.param("runtime.task", "from penstock.errors import RecordError", False, id="errors"),
        pytest.param("runtime.task", "from . import chain", False, id="relative, own package"),
        pytest.param(
            "runtime.operators", "from penstock.runtime.state.keyed import x", False, id="layers"
        ),
        pytest.param(
            "jobmanager", "from penstock.runtime.state.backends import x", False, id="all in one"
        ),
        pytest.param("spark", "import pyspark", False, id="spark in penstock.spark"),
        pytest.param(
            "graph", "if TYPE_CHECKING:\n    import pyspark", False, id="a type of Spark's"
        ),
    ],
)
def test_the_checker_tells_good_imports_from_bad_ones(
    package: str, source: str, is_broken: bool
) -> None:
    assert bool(broken_rules(module_of(package, source))) is is_broken


@pytest.mark.parametrize(
    ("source", "is_broken"),
    [
        pytest.param("import penstock.rest", True, id="server at import time"),
        pytest.param("def f():\n    import penstock.rest", False, id="server at call time"),
        pytest.param("def f():\n    import penstock.cli", True, id="another package"),
    ],
)
def test_a_listed_arrow_holds_for_its_package_and_not_at_import_time(
    source: str, is_broken: bool
) -> None:
    module = imports.read_module(source, "penstock.jobmanager.launcher", is_package=False)
    assert bool(broken_rules(module)) is is_broken


@pytest.mark.parametrize(
    "back",
    [
        pytest.param("import penstock.spark.pipe", id="at import time"),
        pytest.param("def f():\n    from penstock.spark import pipe", id="inside a function"),
        pytest.param(
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import penstock.spark.pipe",
            id="for the type checker",
        ),
    ],
)
def test_a_circle_is_found_whatever_it_is_made_of(back: str) -> None:
    ring = [
        module_of("spark", "import penstock.runtime.task.shared.chain"),
        module_of("runtime.task", "import penstock.graph.compiler"),
        module_of("checkpoint", "import penstock.graph.compiler"),
    ]
    assert circles([*ring, module_of("graph", "import penstock.time.clock")]) == []
    assert circles([*ring, module_of("graph", back)]) == [["graph", "runtime.task", "spark"]]


def test_imports_are_told_apart_by_when_they_happen() -> None:
    source = """
import a
if TYPE_CHECKING:
    import b
    def f(): import c
else:
    import d
class E:
    import e
    def f(self):
        import f
g = lambda: __import__("nothing")
"""
    module = imports.read_module(source, "m", is_package=False)
    assert {each.name: each.when for each in module.imports} == {
        "a": When.IMPORT,
        "b": When.TYPES,
        "c": When.TYPES,
        "d": When.IMPORT,
        "e": When.IMPORT,
        "f": When.CALL,
    }


@pytest.mark.parametrize("module", ["penstock.datastream", "penstock.common"])
def test_importing_the_api_loads_no_heavy_library(module: str) -> None:
    """Programs start fast: Spark, pandas and Arrow come when a job runs."""
    heavy = {"pyspark", "pandas", "pyarrow", "numpy"}
    code = f"import sys, {module}; print(*sorted({heavy!r} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (0, ""), ran.stderr
