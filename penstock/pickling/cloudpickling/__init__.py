"""cloudpickle under a name of its own, so that a version among a job's requirements never takes its place.

Pickles name the functions that rebuild what they hold, and other versions of cloudpickle lack some of these. So tasks must load with the version
that the driver has, while the user's code may import any other as `cloudpickle`. This package is a second copy of the driver's: its modules are those
of the installed cloudpickle, loaded as `penstock.pickling.cloudpickling.*`. Executors get the copy with this package (`penstock.spark.session`),
workers with an environment of their own in their bundle (`penstock.spark.dependencies`).
"""

from __future__ import annotations

import importlib.util
import io
import os
import types
from pathlib import Path
from typing import Any, Final

from penstock.pickling import program_classes

#: Names the folder of the driver's cloudpickle in workers that have an environment of their own
FOLDER: Final = "PENSTOCK_CLOUDPICKLE"
# The length of what cloudpickle says about a class that it pickles by value: with a function that fills the class.
_BY_VALUE: Final = 6
_FUNCTION_OR_CLASS: Final = (type, types.FunctionType)


def _load() -> Any:
    """Load the copy. On the driver it shares the list of modules to pickle by value with the installed one, to which the user's program adds."""
    name = f"{__name__}.cloudpickle"
    folder = os.environ.get(FOLDER)
    if folder is not None:
        __path__.insert(0, folder)
        return importlib.import_module(name)
    if importlib.util.find_spec(name) is not None:
        # An executor: the copy came with this package, and what the machine has installed may be another version.
        return importlib.import_module(name)
    import cloudpickle

    __path__.extend(cloudpickle.__path__)
    own = importlib.import_module(name)
    own._PICKLE_BY_VALUE_MODULES = cloudpickle.cloudpickle._PICKLE_BY_VALUE_MODULES  # type: ignore[attr-defined] # noqa: SLF001
    return own


_own = _load()

_Pickler: Any = _own.Pickler


class Pickler(_Pickler):  # type: ignore[misc]
    """cloudpickle's, which also names the classes that it pickles by value, and keeps them in `classes`."""

    def __init__(self, file: Any, protocol: int | None = None) -> None:
        super().__init__(file, protocol)
        self.classes: dict[type, None] = {}

    def reducer_override(self, value: Any) -> Any:
        """Return how to pickle a function or a class; NotImplemented: as pickle does."""
        kind = type(value)
        # Called for every object. A call of cloudpickle's method for each would make pickling of objects 9 % slower.
        if not issubclass(kind, _FUNCTION_OR_CLASS):
            return NotImplemented
        reduced = super().reducer_override(value)
        if reduced is NotImplemented or kind is types.FunctionType or len(reduced) != _BY_VALUE:
            return reduced
        self.classes[value] = None
        return program_classes.reduced(value, reduced)


def dumps(value: object, protocol: int | None = None) -> bytes:
    """Pickle a value, with functions and classes that cannot be imported."""
    with io.BytesIO() as file:
        Pickler(file, protocol).dump(value)
        return file.getvalue()


def classes_in(value: object) -> tuple[type, ...]:
    """Pickle a value, and return the classes that were pickled by value."""
    with io.BytesIO() as file:
        pickler = Pickler(file, 5)
        pickler.dump(value)
        return tuple(pickler.classes)


loads: Any = _own.loads
register_pickle_by_value: Any = _own.register_pickle_by_value
unregister_pickle_by_value: Any = _own.unregister_pickle_by_value
list_registry_pickle_by_value: Any = _own.list_registry_pickle_by_value


def source_files() -> list[Path]:
    """Return the files of the copy, to be sent to where tasks run."""
    modules = Path(_own.__file__).parent.glob("*.py")
    return sorted(path for path in modules if path.name != "__init__.py")  # that is this file
