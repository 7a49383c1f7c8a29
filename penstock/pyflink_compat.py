"""Lets `import pyflink` mean Penstock, for programs that were written for PyFlink.

`install()` puts a finder in front of Python's own: `pyflink.datastream` is then the module `penstock.datastream` itself, not
a copy, so that classes are the same under both names. An installed PyFlink is not touched, and not found while the finder is
in place.

PyFlink's users see failures as `py4j.protocol.Py4JJavaError`. So every error of Penstock is one too, besides what it is,
while the names are in place: `except Py4JJavaError` catches it, and its `java_exception` answers as theirs does.
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
from typing import Any

from penstock import errors
from penstock.errors import PenstockError

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


# What Flink throws where Penstock raises; an error of another kind goes by the first of its bases that is here.
_JAVA_NAMES = {
    errors.JobExecutionError: "org.apache.flink.runtime.client.JobExecutionException",
    errors.JobCancelledError: "org.apache.flink.runtime.client.JobCancellationException",
    errors.CheckpointError: "org.apache.flink.runtime.checkpoint.CheckpointException",
    errors.InvalidProgramError: "java.lang.IllegalStateException",
    errors.UnsupportedOperationError: "java.lang.UnsupportedOperationException",
    errors.ArgumentError: "java.lang.IllegalArgumentException",
    errors.ArgumentTypeError: "java.lang.IllegalArgumentException",
    errors.ConfigurationError: "java.lang.IllegalArgumentException",
    PenstockError: "org.apache.flink.util.FlinkException",
}


class _JavaClass:
    """What `getClass()` of a JavaThrowable returns."""

    def __init__(self, name: str) -> None:
        self._name = name

    def getName(self) -> str:  # noqa: N802 - Java's name
        """Return the name of the class, with its package."""
        return self._name

    def getSimpleName(self) -> str:  # noqa: N802 - Java's name
        """Return the name of the class."""
        return self._name.rpartition(".")[2]


class JavaThrowable:
    """An error as programs for PyFlink look at it: `error.java_exception`. There is no JVM behind it."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def getClass(self) -> _JavaClass:  # noqa: N802 - Java's name
        """Return the class of Flink's counterpart."""
        for base in type(self._error).__mro__:
            if base in _JAVA_NAMES:
                return _JavaClass(_JAVA_NAMES[base])
        return _JavaClass(f"{type(self._error).__module__}.{type(self._error).__qualname__}")

    def getMessage(self) -> str:  # noqa: N802 - Java's name
        """Return the text of the error."""
        return str(self._error)

    getLocalizedMessage = getMessage  # noqa: N815 - Java's name

    def getCause(self) -> JavaThrowable | None:  # noqa: N802 - Java's name
        """Return the error that this one came from."""
        cause = self._error.__cause__
        return None if cause is None else JavaThrowable(cause)

    def getStackTrace(self) -> list[Any]:  # noqa: N802 - Java's name
        """Return nothing: Python's traceback is on the error itself."""
        return []

    def toString(self) -> str:  # noqa: N802 - Java's name
        """Return the class and the text."""
        return f"{self.getClass().getName()}: {self.getMessage()}"

    def __str__(self) -> str:
        return self.toString()


def _as_java_error(kind: type[PenstockError]) -> type[PenstockError]:
    """Return the class of errors that are of a kind of Penstock's, and of Py4J's too."""
    if kind not in _java_errors:
        _java_errors[kind] = _new_java_error(kind)
    return _java_errors[kind]


def _new_java_error(kind: type[PenstockError]) -> type[PenstockError]:
    from py4j.protocol import Py4JJavaError

    members = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "variant_of": kind,
        "errmsg": property(lambda error: error.message),
        "java_exception": property(JavaThrowable),
    }
    return type(kind.__name__, (kind, Py4JJavaError), members)


_java_errors: dict[type[PenstockError], type[PenstockError]] = {}


def is_installed() -> bool:
    """Whether `import pyflink` means Penstock in this process."""
    return any(isinstance(finder, PyflinkFinder) for finder in sys.meta_path)


def install() -> None:
    """Make `import pyflink` mean Penstock in this process, from now on."""
    if not is_installed():
        _forget()
        sys.meta_path.insert(0, PyflinkFinder())
        errors.set_variants(_as_java_error)


def uninstall() -> None:
    """Make `import pyflink` mean PyFlink again."""
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, PyflinkFinder)]
    errors.set_variants(None)
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


__all__ = [
    "JavaThrowable",
    "PyflinkFinder",
    "install",
    "is_installed",
    "pyflink_names",
    "uninstall",
]
