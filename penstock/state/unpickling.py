"""Unpickling state away from the job that wrote it: its classes may not be there."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.errors import CheckpointError, PenstockError, RestoreRefusedError
from penstock.savepoint.lenient import INNER, load_leniently
from penstock.savepoint.open_json import Unopened


def load(data: bytes, what: str, *, shallow: bool = False) -> Any:
    """Unpickle a value; `what` names it in errors. A class that cannot be imported is an error that says so.

    With `shallow`, pickles inside of the pickle, as metadata of savepoints has them, are not opened.
    """
    with explained(what):
        return _Strict(data, shallow=shallow).load()


class _Strict(pickle.Unpickler):
    def __init__(self, data: bytes, *, shallow: bool) -> None:
        super().__init__(io.BytesIO(data))
        self._inner = Unopened if shallow else lambda data: _Strict(data, shallow=False).load()

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in INNER:
            return self._inner
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError) as error:
            raise _missing(f"{module}.{name}", str(error)) from error


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn what goes wrong while `what` is unpickled into an error that says what to do."""
    try:
        yield
    except RestoreRefusedError as error:
        cause = error.__cause__  # said to somebody who starts a job
        if isinstance(cause, ImportError | AttributeError):
            raise _missing(None, f"{what}: {cause}") from cause
        raise
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


__all__ = ["explained", "load", "load_leniently"]
