"""Modules that are files of no package: tools and examples."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

TOOLS = Path(__file__).parents[2] / "tools"


def load(path):
    """Return the module that a file has, which is known by its name from now on."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def load_tool(name: str) -> ModuleType:
    """Return a module of `tools`. All tests share it: tools find each other by name, and pickle compares classes."""
    return sys.modules.get(name) or load(TOOLS / f"{name}.py")
