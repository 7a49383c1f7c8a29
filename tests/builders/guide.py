"""The packages that CONTRIBUTING.md writes, for tests that use them."""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.runtime.columnar.expressions.compiler import COMPILERS
from penstock.sql.expr.functions.definitions import DEFINITIONS
from penstock.sql.physical.planner import IMPLEMENTATIONS
from penstock.sql.rules.optimizer import RULES

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"
BLOCKS = re.findall(r"```python\n# (\S+)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
PACKAGES = sorted({module.partition("/")[0].removesuffix(".py") for module, _ in BLOCKS})


@contextmanager
def guide_package() -> Iterator[Path]:
    """Let the modules of the guide be there, as it writes them. What they register in Penstock is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="guide") as directory:
        root = Path(directory)
        for name, text in BLOCKS:
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)
        _forget()
        sys.path.insert(0, directory)
        registries: list[dict[Any, Any]] = [DEFINITIONS, COMPILERS, IMPLEMENTATIONS]
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


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]
    importlib.invalidate_caches()
