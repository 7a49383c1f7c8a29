"""Unpickling state away from the job that wrote it: its classes may not be there."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from penstock.errors import CheckpointError, PenstockError


def load(data: bytes, what: str) -> Any:
    """Unpickle a value; `what` names it in errors. A class that cannot be imported is an error that says so."""
    with explained(what):
        return _Strict(io.BytesIO(data)).load()


def load_leniently(data: bytes) -> Any:
    """Unpickle a value of which only the outline matters: objects of unknown classes become Opaque ones."""
    return _Lenient(io.BytesIO(data)).load()


class Opaque:
    """Stands for an object whose class cannot be imported. Equal ones are equal; that is all it knows."""

    _parts: list[Any]

    def __new__(cls, *args: Any) -> Self:
        """Unpickling does not always call __init__."""
        made = super().__new__(cls)
        made._parts = [args]
        return made

    def __setstate__(self, state: Any) -> None:
        self._parts.append(state)

    def append(self, item: Any) -> None:
        """Take an item of what was a list."""
        self._parts.append(item)

    def extend(self, items: Any) -> None:
        """Take items of what was a list."""
        self._parts.extend(items)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._parts.append((key, value))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Opaque)
            and type(self).__qualname__ == type(other).__qualname__
            and self._parts == other._parts
        )

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"<{type(self).__qualname__} {self._parts!r}>"


# Metadata of savepoints may hold pickles that are opened only with what holds them.
_INNER = {("pickle", "loads"), ("_pickle", "loads")}


class _Strict(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _INNER:
            return lambda data: _Strict(io.BytesIO(data)).load()
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError) as error:
            raise _missing(f"{module}.{name}", str(error)) from error


class _Lenient(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _INNER:
            return load_leniently
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError):
            return type(name, (Opaque,), {"__module__": module, "__qualname__": f"{module}.{name}"})


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn what goes wrong while `what` is unpickled into an error that says what to do."""
    try:
        yield
    except PenstockError:
        raise
    except (ImportError, AttributeError) as error:
        raise _missing(None, f"{what}: {error}") from error
    except Exception as error:
        raise CheckpointError(
            f"{what} cannot be unpickled",
            detail=f"{type(error).__name__}: {error}",
            hint="read it with the classes and library versions of the job that wrote it",
        ) from error


def _missing(name: str | None, detail: str) -> CheckpointError:
    what = "a class" if name is None else f"class '{name}'"
    return CheckpointError(
        f"{what} that the state has objects of cannot be imported",
        detail=detail,
        hint="put the modules of the job on the path (PYTHONPATH, or --py-files on a cluster); a class of the script "
        "itself ('__main__') is found if the script is imported and the class belongs to a module",
    )
