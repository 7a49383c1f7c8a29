"""The classes of a program that are pickled by value, found by their names when state of an earlier run is restored.

Classes of the program's script (`__main__`) cannot be imported in other processes, so every pickle of an object carries the class. A pickle of an
earlier run carries the class of that run. Tasks therefore know the classes of their own program: an object that is
restored becomes an instance of the class that has the same name there, and the class in the pickle is ignored.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import io
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

PickledClass = tuple[str, str, bytes]  # module, qualified name, the class
PickledClasses = tuple[PickledClass, ...]

# Metadata of savepoints has pickles in pickles.
_NESTED: Final = frozenset({("pickle", "loads"), ("_pickle", "loads")})

_thread = threading.local()
# Classes that this process defines, and those that pickles have defined in it.
_defined_here: weakref.WeakSet[type] = weakref.WeakSet()
_rebuilt: weakref.WeakSet[type] = weakref.WeakSet()


class ProgramClasses:
    """The classes of a program by name. They are unpickled when they are needed: most never are."""

    def __init__(self, pickled: PickledClasses) -> None:
        self._pickled = {(module, name): data for module, name, data in pickled}
        self._loaded: dict[tuple[str, str], type | None] = {}
        self._lock = threading.RLock()

    def find(self, module: str, name: str) -> type | None:
        """Return the class of a name; None if the program has none that can be restored here."""
        key = (module, name)
        if key not in self._pickled:
            return None
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = _load(self._pickled[key])
            return self._loaded[key]

    def __contains__(self, kind: type) -> bool:
        return self._loaded.get((kind.__module__, kind.__qualname__)) is kind


def _load(data: bytes) -> type | None:
    with _using(None):
        try:
            found: type = pickle.loads(data)
        except Exception:  # noqa: BLE001 - it needs a module that tasks do not have, so no state can hold its objects
            return None
    return found


def current() -> ProgramClasses | None:
    """Return the classes of the program that the calling thread works for; None outside of tasks."""
    program: ProgramClasses | None = getattr(_thread, "program", None)
    return program


@contextlib.contextmanager
def _using(program: ProgramClasses | None) -> Iterator[None]:
    before = current()
    _thread.program = program
    try:
        yield
    finally:
        _thread.program = before


def using(pickled: PickledClasses) -> contextlib.AbstractContextManager[None]:
    """Let the calling thread restore objects with the classes of this program."""
    return _using(_program(pickled))


def loads(data: bytes) -> Any:
    """Unpickle state in a task, where a class of the script may also be named, as a driver has pickled it."""
    return _Unpickler(io.BytesIO(data)).load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        if (module, name) in _NESTED:
            return loads
        program = current()
        found = None if program is None else program.find(module, name)
        return super().find_class(module, name) if found is None else found


@functools.lru_cache(maxsize=8)  # the slots of a job, in epoch after epoch
def _program(pickled: PickledClasses) -> ProgramClasses:
    return ProgramClasses(pickled)


def pickled_classes(sent: Iterable[type]) -> PickledClasses:
    """Return the classes of this program that its state may have objects of, as they go to tasks.

    These are the ones of its script that have fields or members, and those that are sent to tasks with its functions, `sent`.
    Classes in functions are left out: several of them may have one name. Of others with one name the script's is taken.
    """
    from penstock.pickling import cloudpickling

    found: dict[tuple[str, str], type | None] = {}
    for kind in _classes_of_script():
        try:
            inner = cloudpickling.classes_in(kind)
        except Exception:  # noqa: BLE001, S112 - it cannot be sent to tasks, so their state has no objects of it
            continue
        for each in (kind, *inner):
            found.setdefault((each.__module__, each.__qualname__), each)
    in_script = set(found)
    for kind in sent:
        key = (kind.__module__, kind.__qualname__)
        if key not in in_script:
            found[key] = kind if found.get(key, kind) is kind else None
    return pickled(kind for kind in found.values() if kind is not None)


def _classes_of_script() -> list[type]:
    script = sys.modules.get("__main__")
    return [
        value
        for value in list(vars(script).values() if script is not None else ())
        if isinstance(value, type) and value.__module__ == "__main__" and _has_parts(value)
    ]


def _has_parts(kind: type) -> bool:
    if issubclass(kind, enum.Enum):
        return True
    return any(
        hasattr(kind, name)
        for name in ("__dataclass_fields__", "__attrs_attrs__", "_fields", "__slots__")
    )


def _may_be_in_state(kind: type) -> bool:
    if "<locals>" in kind.__qualname__:
        return False
    return not any(each.__module__.partition(".")[0] == "penstock" for each in kind.__mro__)


def pickled(classes: Iterable[type]) -> PickledClasses:
    """Return classes as they go to tasks, without those defined in functions and those that extend a class of Penstock."""
    from penstock.pickling import cloudpickling

    return tuple(
        (kind.__module__, kind.__qualname__, cloudpickling.dumps(kind, 5))
        for kind in classes
        if _may_be_in_state(kind)
    )


# What pickles of classes call.

Make = Callable[..., type]
Fill = Callable[[type, Any], Any]


def reduced(kind: type, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return how a class is pickled by value, with its name; `parts` is what cloudpickle says."""
    if kind not in _rebuilt:
        _defined_here.add(kind)
    make, arguments, state, _, _, fill = parts
    named = (kind.__module__, kind.__qualname__, make, arguments)
    return rebuild_class, named, (fill, state), None, None, fill_class


def rebuild_class(module: str, name: str, make: Make, arguments: tuple[Any, ...]) -> type:
    """Return the class of the program that has this name, or else the pickled one, still empty."""
    program = current()
    found = None if program is None else program.find(module, name)
    if found is not None:
        return found
    kind = make(*arguments)
    if kind not in _defined_here:
        _rebuilt.add(kind)
        kind.__qualname__ = name
    return kind


def fill_class(kind: type, content: tuple[Fill, Any]) -> type:
    """Give a rebuilt class its attributes, unless it is a class of the program or of this process: it has its own."""
    program = current()
    if kind not in _defined_here and (program is None or kind not in program):
        fill, state = content
        fill(kind, state)
    return kind


__all__: Final = [
    "PickledClasses",
    "ProgramClasses",
    "current",
    "fill_class",
    "loads",
    "pickled",
    "pickled_classes",
    "rebuild_class",
    "reduced",
    "using",
]
