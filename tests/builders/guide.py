"""The packages that CONTRIBUTING.md and the page on connectors write, for tests that use them."""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import penstock.sql.physical.planner  # noqa: F401 - loads what registers itself
from penstock.runtime.columnar.expressions.compiler import COMPILERS
from penstock.sql.connector.registry import CONNECTORS
from penstock.sql.expr.functions.definitions import DEFINITIONS
from penstock.sql.physical.context import IMPLEMENTATIONS
from penstock.sql.rules.optimizer import RULES

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "CONTRIBUTING.md", ROOT / "docs" / "how-to" / "write-a-connector.md")
GUIDE = "\n".join(page.read_text() for page in PAGES)
BLOCKS = re.findall(r"```python\n# (\S+)\n(.*?)```", GUIDE, re.DOTALL)
PROJECTS = re.findall(r"```toml\n# pyproject.toml of (\S+)\n(.*?)```", GUIDE, re.DOTALL)
PACKAGES = sorted({module.partition("/")[0].removesuffix(".py") for module, _ in BLOCKS})


@contextmanager
def guide_package() -> Iterator[Path]:
    """Let the modules of the guide be there, as it writes them. What they register in Penstock is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="guide") as directory:
        root = Path(directory)
        for name, text in BLOCKS:
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)
        for name, text in PROJECTS:
            _install(root, name, tomllib.loads(text)["project"]["entry-points"])
        _forget()
        sys.path.insert(0, directory)
        registries: list[dict[Any, Any]] = [
            DEFINITIONS,
            COMPILERS,
            IMPLEMENTATIONS,
            CONNECTORS._loaded,
        ]
        known, rules = [dict(each) for each in registries], list(RULES)
        try:
            yield root
        finally:
            for registry, before in zip(registries, known, strict=True):
                registry.clear()
                registry.update(before)
            RULES[:] = rules
            sys.path.remove(directory)
            _forget()


def _install(root: Path, name: str, groups: dict[str, dict[str, str]]) -> None:
    """Write the metadata that an installer writes for a project with these entry points."""
    info = root / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for group, members in groups.items():
        lines += [f"[{group}]", *(f"{each} = {value}" for each, value in members.items())]
    (info / "entry_points.txt").write_text("\n".join([*lines, ""]))


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]
    importlib.invalidate_caches()
