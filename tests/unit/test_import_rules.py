"""The arrows of import between the packages, read from the source text: which there may be, and that none leads back.

Strings that name a module count, too.
"""

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

# What everything else is built on, from the bottom up: each of these imports none that stands above it.
_FOUNDATION: dict[str, set[str]] = {
    "errors": set(),
    "pyflink_compat": set(),  # only gives other names to modules
    "time": set(),
    "logs": set(),
    "dependencies": set(),
    "processes": set(),
    "pickling": set(),
    "metrics": set(),
    "files": {"dependencies"},
    "options": {"time", "logs", "dependencies"},
    "common": {"options", "time"},
    "records": {"common", "time"},
    "windowing": {"common", "time"},
    "state_descriptors": {"common", "time"},
}
FOUNDATION = set(imports.FOUNDATION)
# package -> the packages of penstock that it may import, besides itself and the foundation; with a package, all in it
MAY_IMPORT: dict[str, set[str]] = {
    "web": set(),
    "kubernetes": set(),
    "sql.errors": set(),
    "sql.types": set(),
    "sql.expr": {"sql.types"},
    "connectors.base": set(),
    "formats.base": {"connectors.base"},
    "graph": {"connectors.base"},
    "graph.operator_specs.columnar": {"graph", "sql.expr", "sql.types"},
    "drawing": {"graph", "runtime.cep"},
    # the state of jobs, and the control plane
    "checkpoint": {"graph", "connectors.base"},
    "savepoint": {"runtime", "checkpoint", "graph"},
    "spark": {"runtime", "graph", "checkpoint", "sql.types"},
    "state": {"spark", "savepoint", "runtime", "checkpoint", "graph"},
    "jobmanager": {
        "runtime",
        "savepoint",
        "checkpoint",
        "graph",
        "connectors.base",
        "kubernetes",
    },
    "replay": {"jobmanager", "runtime", "checkpoint", "graph", "connectors.base"},
    "rest": {"web", "jobmanager", "state", "savepoint", "spark", "runtime", "graph"},
    "client": {"rest", "jobmanager", "spark", "graph", "connectors.base"},
    "session": {"client", "rest", "jobmanager", "spark", "graph"},
    # SQL below the names of PyFlink, and the systems that jobs read and write
    "catalogs": {"sql.types", "sql.errors"},
    "sql.udf": {"sql.types", "runtime.columnar"},
    "sql.parse": {"sql.types", "sql.errors"},
    "sql.table_api": {"catalogs", "sql.parse", "sql.types", "sql.udf"},
    "sql.connector": {
        "catalogs",
        "connectors.base",
        "graph",
        "runtime.columnar",
        "sql.expr",
        "sql.types",
    },
    "sql.logical": {
        "catalogs",
        "graph",
        "sql.errors",
        "sql.expr",
        "sql.parse",
        "sql.types",
    },
    "sql.rules": {
        "catalogs",
        "graph",
        "runtime.columnar",
        "sql.expr",
        "sql.logical",
        "sql.parse",
        "sql.types",
    },
    "sql.physical": {
        "catalogs",
        "connectors.base",
        "drawing",
        "graph",
        "runtime.columnar",
        "sql.connector",
        "sql.errors",
        "sql.expr",
        "sql.logical",
        "sql.rules",
        "sql.types",
        "sql.udf",
    },
    "sql.results": {"runtime.columnar", "sql.logical", "sql.types"},
    "sql.execution": {
        "catalogs",
        "connectors.base",
        "connectors.spark",
        "spark",
        "graph",
        "runtime.columnar",
        "sql.connector",
        "sql.errors",
        "sql.expr",
        "sql.logical",
        "sql.parse",
        "sql.physical",
        "sql.results",
        "sql.table_api",
        "sql.types",
        "sql.udf",
    },
    "formats": {
        "formats.base",
        "connectors.base",
        "runtime.columnar",
        "sql.connector",
        "sql.types",
    },
    "connectors": {
        "connectors.base",
        "formats",
        "catalogs",
        "runtime.columnar",
        "spark",
        "sql.connector",
        "sql.results",
        "sql.types",
    },
    "connectors.spark": {
        "catalogs",
        "connectors.base",
        "formats.base",
        "runtime.columnar",
        "runtime.user_code",
        "spark",
        "sql.connector",
        "sql.types",
    },
    # the names of PyFlink
    "datastream": {"client", "connectors", "formats", "graph"},
    "cep": {"datastream", "drawing", "runtime.cep", "graph"},
    "table": {"datastream", "sql", "catalogs", "connectors", "graph"},
    # what starts jobs and looks into them
    "cli": {
        "table",
        "sql",
        "cep",
        "datastream",
        "connectors",
        "formats",
        "session",
        "client",
        "rest",
        "replay",
        "state",
        "savepoint",
        "checkpoint",
        "jobmanager",
        "spark",
        "kubernetes",
        "drawing",
        "graph",
        "runtime",
    },
    "notebook": {"table", "sql", "client", "rest", "state"},
    # for tests: no other package imports it
    "testing": {
        "table",
        "datastream",
        "connectors",
        "client",
        "jobmanager",
        "runtime",
        "graph",
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
    "runtime.cep": {"runtime.operators", "runtime.records", "runtime.user_code"},
    "runtime.columnar": {
        "runtime.cep",
        "runtime.network",
        "runtime.operators",
        "runtime.records",
        "runtime.state",
        "runtime.time",
        "runtime.user_code",
        "sql.expr",
        "sql.types",
        "graph.operator_specs.columnar",
    },
    "runtime.task": {
        "runtime.columnar",  # only to load it for batches of columns
        "runtime.inspection",
        "runtime.metrics",
        "runtime.network",
        "runtime.operators",
        "runtime.records",
        "runtime.state",
        "runtime.state.backends",
        "runtime.time",
        "runtime.user_code",
    },
}
MAY_IMPORT |= {layer: allowed | {"graph", "connectors.base"} for layer, allowed in _RUNTIME.items()}
MAY_IMPORT = {
    package: allowed | FOUNDATION for package, allowed in MAY_IMPORT.items()
} | _FOUNDATION
PACKAGES = set(MAY_IMPORT)

# package -> the packages that it may name in an address, `"package.module:name"`: a spec of an operator names the operator
# that runs it, so a new operator is a spec, an operator, and no line in a list. The package that names one knows nothing else of it.
MAY_NAME: dict[str, set[str]] = {
    "graph": {"runtime"},
    "graph.operator_specs.columnar": {"runtime"},
}


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
        if each.when is When.ADDRESS and within(target, MAY_NAME.get(package, set())):
            continue
        broken.append(f"line {each.line}: {package} imports {each.name}")
    return broken


def circles(modules) -> list[list[str]]:
    """The packages that reach each other, by arrows of any kind."""
    arrows = imports.arrows(modules, package_of)
    found: list[list[str]] = imports.cycles(
        (start, end)
        for (start, end), makers in arrows.items()
        if not all(
            when is When.ADDRESS and within(end, MAY_NAME.get(start, set()))
            for when in makers.values()
        )
    )
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
        "penstock.sql",
    }  # of these only the first lines count
    assert [name for name in modules() if package_of(name) is None and name not in roots] == []


def test_the_foundation_is_known() -> None:
    assert set(_FOUNDATION) == FOUNDATION


def test_importing_penstock_loads_nothing_else() -> None:
    roots = [modules()[name] for name in ("penstock", "penstock.runtime")]
    assert [
        each.name
        for m in roots
        for each in m.imports
        # IPython calls a function of the package, which imports what notebooks need.
        if each.name.startswith("penstock") and each.when is not When.CALL
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
    assert found == [], makers


# The checker itself


def module_of(package: str, source: str):
    module = imports.read_module(source, f"penstock.{package}.module", is_package=False)
    return module.with_addresses(["penstock.runtime.time", "penstock.runtime.time.timers"])


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
        pytest.param("datastream", "import penstock.table", True, id="upwards, at import time"),
        pytest.param(
            "checkpoint",
            'operator = "penstock.runtime.time.timers:TimerQueue"',
            True,
            id="upwards, by an address",
        ),
        pytest.param(
            "checkpoint",
            'import_module("penstock.runtime.time.timers")',
            True,
            id="upwards, by the name of a module",
        ),
        pytest.param(
            "checkpoint",
            'import_module(f"penstock.runtime.time.{name}")',
            True,
            id="upwards, by a part of a name",
        ),
        pytest.param("jobmanager", "import penstock.testing", True, id="support of tests"),
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
        pytest.param(
            "checkpoint", 'getLogger("penstock.runtime.time")', False, id="the name of a logger"
        ),
        pytest.param(
            "checkpoint", '"penstock.runtime.parallelism"', False, id="the name of an option"
        ),
        pytest.param(
            "graph",
            'operator = "penstock.runtime.time.timers:TimerQueue"',
            False,
            id="the operator of a spec",
        ),
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
