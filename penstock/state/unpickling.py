"""Unpickles state outside of the job that wrote it, where its classes may be missing."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.errors import CheckpointError, PenstockError, RestoreRefusedError
from penstock.savepoint.lenient_pickle import INNER, load_leniently
from penstock.savepoint.open_json import UnopenedPickle


def load(data: bytes, what: str, *, shallow: bool = False) -> Any:
    """Unpickle a value; `what` names it in errors. A class that cannot be imported is reported.

    With `shallow`, nested pickles, as in the metadata of savepoints, are not opened.
    """
    with explained(what):
        return _Strict(data, shallow=shallow).load()


class _Strict(pickle.Unpickler):
    def __init__(self, data: bytes, *, shallow: bool) -> None:
        super().__init__(io.BytesIO(data))
        self._inner = (
            UnopenedPickle if shallow else lambda data: _Strict(data, shallow=False).load()
        )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in INNER:
            return self._inner
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError) as error:
            raise _missing(f"{module}.{name}", str(error)) from error


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn errors while unpickling `what` into one with a hint."""
    try:
        yield
    except RestoreRefusedError as error:
        cause = error.__cause__  # its message is for the start of a job
        if isinstance(cause, ImportError | AttributeError):
            raise _missing(None, f"{what}: {cause}") from cause
        raise
    except PenstockError:
        raise
    except (ImportError, AttributeError) as error:
        raise _missing(None, f"{what}: {error}") from error
    except Exception as error:
        raise CheckpointError(
            f"could not unpickle {what}",
            detail=f"{type(error).__name__}: {error}",
            hint="read it with the classes and library versions of the job that wrote it",
        ) from error


def _missing(name: str | None, detail: str) -> CheckpointError:
    what = "a class" if name is None else f"class '{name}'"
    return CheckpointError(
        f"cannot import {what} of objects in the state",
        detail=detail,
        hint="add the modules of the job to the path (PYTHONPATH, or --py-files on a cluster); a class of the script "
        "itself ('__main__') is found only if it is moved to a module",
    )


__all__ = ["explained", "load", "load_leniently"]
