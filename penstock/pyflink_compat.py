"""Lets `import pyflink` mean Penstock, for programs that were written for PyFlink.

`install()` puts a finder in front of Python's own: `pyflink.datastream` is then the module `penstock.datastream` itself, not
a copy, so that classes are the same under both names. An installed PyFlink is not touched, and not found while the finder is
in place.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_THEIRS = "pyflink"
_OURS = "penstock"


def _is_theirs(name: str) -> bool:
    return name == _THEIRS or name.startswith(_THEIRS + ".")


class _AliasLoader(Loader):
    """Gives a module of Penstock under another name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return Penstock's module."""
        module = importlib.import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Undo what the import system did to the module: it keeps its own name."""
        module.__spec__ = self._spec


class PyflinkFinder(MetaPathFinder):
    """Finds `pyflink` and its modules in Penstock."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of Penstock's module; raise if there is none, rather than mix both packages."""
        if not _is_theirs(fullname):
            return None
        ours = _OURS + fullname[len(_THEIRS) :]
        found = importlib.util.find_spec(ours)
        if found is None:
            raise ModuleNotFoundError(
                f"No module named '{fullname}': Penstock has no counterpart of it", name=fullname
            )
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, _AliasLoader(ours), is_package=is_package)


def is_installed() -> bool:
    """Whether `import pyflink` means Penstock in this process."""
    return any(isinstance(finder, PyflinkFinder) for finder in sys.meta_path)


def install() -> None:
    """Make `import pyflink` mean Penstock in this process, from now on."""
    if not is_installed():
        _forget()
        sys.meta_path.insert(0, PyflinkFinder())


def uninstall() -> None:
    """Make `import pyflink` mean PyFlink again."""
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, PyflinkFinder)]
    _forget()


@contextlib.contextmanager
def pyflink_names() -> Iterator[None]:
    """Make `import pyflink` mean Penstock inside of a `with` statement.

    >>> with pyflink_names():
    ...     from pyflink.common import Row
    >>> Row.__module__
    'penstock.common.types'
    """
    before = {name: module for name, module in sys.modules.items() if _is_theirs(name)}
    was_installed = is_installed()
    install()
    try:
        yield
    finally:
        if not was_installed:
            uninstall()
            sys.modules.update(before)


def _forget() -> None:
    for name in [name for name in sys.modules if _is_theirs(name)]:
        del sys.modules[name]


__all__ = ["PyflinkFinder", "install", "is_installed", "pyflink_names", "uninstall"]
