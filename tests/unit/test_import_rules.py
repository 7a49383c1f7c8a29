"""The arrows of import between the packages, read from the source text."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

ROOT = Path(penstock.__file__).parent

# package -> the packages of penstock that it may import, besides itself and penstock.errors
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "pyflink_compat": set(),  # only gives other names to modules
    "common": set(),
    "metrics": set(),
    "files": {"common"},
    "windowing": {"common"},
    "connectors": {"files", "common"},
    "graph": {"connectors", "common"},
    "runtime": {"graph", "connectors", "windowing", "common", "metrics"},
    "checkpoint": {"connectors", "files", "common"},
    "savepoint": {"runtime", "checkpoint", "graph", "windowing", "files", "common"},
    "datastream": {"graph", "connectors", "windowing", "common"},
    "table": {"common"},
    "cep": {"runtime", "graph", "common", "datastream"},
    "spark": {"runtime", "graph", "checkpoint", "common", "pyflink_compat"},
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
# These run things or serve them, so they stand above the packages in the table.
TOP = {"cli", "rest", "web", "testing"}
# The arrows that point up, at call time only: `execute()` hands the graph to the engine, the engine makes the job
# reachable, and tables of state become DataFrames.
CALL_TIME = {
    "datastream": {"jobmanager"},
    "jobmanager": {"rest"},
    "state": {"spark"},
}


def package_of(path: Path, root: Path = ROOT) -> str:
    """The first folder or module below `penstock`."""
    return path.relative_to(root).parts[0].removesuffix(".py")


def imported_modules(source: str, module: str, *, is_package: bool) -> list[tuple[str, bool, int]]:
    """All imports of a module as (absolute name, at import time, line); type-checking ones are left out."""
    found: list[tuple[str, bool, int]] = []

    def visit(node: ast.AST, at_import: bool) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.orelse:
                visit(child, at_import)
            return
        if isinstance(node, ast.Import):
            found.extend((alias.name, at_import, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                keep = len(parts) - node.level + (1 if is_package else 0)
                base = ".".join([*parts[:keep], *([node.module] if node.module else [])])
            # `from penstock import spark` imports penstock.spark
            found.extend((f"{base}.{alias.name}", at_import, node.lineno) for alias in node.names)
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, at_import and not inside)

    visit(ast.parse(source), True)
    return found


def broken_rules(package: str, imports: list[tuple[str, bool, int]]) -> list[str]:
    """What a module of `package` imports against the rules."""
    broken = []
    for name, at_import, line in imports:
        parts = name.split(".")
        if parts[0] == "pyspark" and package not in {"spark", "testing"}:
            broken.append(f"line {line}: {package} imports {name}: only penstock.spark may")
        if parts[0] != "penstock" or len(parts) < 2 or package not in MAY_IMPORT:
            continue
        target = parts[1]
        if target in {package, "errors", "__version__"} or target in MAY_IMPORT[package]:
            continue
        if not at_import and target in CALL_TIME.get(package, set()):
            continue
        broken.append(f"line {line}: {package} imports {name}")
    return broken


MODULES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=[str(p.relative_to(ROOT)) for p in MODULES])
def test_a_module_imports_only_what_its_package_may(path: Path) -> None:
    package = package_of(path)
    if package in {"__init__", "__main__"}:
        package = (
            "errors" if package == "__init__" else "cli"
        )  # importing penstock loads nothing else
    relative = path.relative_to(ROOT.parent).with_suffix("")
    is_package = path.name == "__init__.py"
    module = ".".join(relative.parts[:-1] if is_package else relative.parts)
    imports = imported_modules(path.read_text(), module, is_package=is_package)
    assert broken_rules(package, imports) == []


def test_every_package_has_a_rule() -> None:
    packages = {package_of(path) for path in MODULES} - {"__init__", "__main__"}
    assert packages <= set(MAY_IMPORT) | TOP


@pytest.mark.parametrize(
    ("package", "source", "is_broken"),
    [
        pytest.param("runtime", "import pyspark", True, id="spark in a task"),
        pytest.param(
            "runtime", "def f():\n    import pyspark.sql", True, id="spark inside a function"
        ),
        pytest.param(
            "runtime", "from penstock import spark", True, id="from penstock import package"
        ),
        pytest.param("graph", "from penstock.runtime import x", True, id="a task in a plan"),
        pytest.param("graph", "from ..runtime import x", True, id="relative, upwards"),
        pytest.param("runtime", "from .. import datastream", True, id="relative, package"),
        pytest.param("datastream", "import penstock.jobmanager", True, id="engine at import time"),
        pytest.param("jobmanager", "import pyspark", True, id="spark outside of penstock.spark"),
        pytest.param("jobmanager", "import penstock.rest", True, id="server at import time"),
        pytest.param(
            "jobmanager", "def f():\n    import penstock.rest", False, id="server at call time"
        ),
        pytest.param(
            "datastream",
            "def f():\n    import penstock.jobmanager",
            False,
            id="engine at call time",
        ),
        pytest.param("runtime", "from penstock.common import x", False, id="common"),
        pytest.param("runtime", "from penstock.errors import RecordError", False, id="errors"),
        pytest.param("runtime", "from . import records", False, id="relative, own package"),
        pytest.param("spark", "import pyspark", False, id="spark in penstock.spark"),
        pytest.param(
            "graph", "if TYPE_CHECKING:\n    import pyspark", False, id="for the type checker only"
        ),
    ],
)
def test_the_checker_tells_good_imports_from_bad_ones(
    package: str, source: str, is_broken: bool
) -> None:
    imports = imported_modules(source, f"penstock.{package}.module", is_package=False)
    assert bool(broken_rules(package, imports)) is is_broken


@pytest.mark.parametrize("module", ["penstock.datastream", "penstock.common"])
def test_importing_the_api_loads_no_heavy_library(module: str) -> None:
    """Programs start fast: Spark, pandas and Arrow come when a job runs."""
    heavy = {"pyspark", "pandas", "pyarrow", "numpy"}
    code = f"import sys, {module}; print(*sorted({heavy!r} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (0, ""), ran.stderr
