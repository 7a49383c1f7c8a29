"""Serialized programs: by value, so that a JobManager needs none of the user's modules and never mixes those of two jobs."""

from __future__ import annotations

import copy
import io
import pickle
import site
import sys
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.errors import InvalidProgramError
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import Transformation
from penstock.jobmanager.job import Program
from penstock.pickling import program_classes
from penstock.pickling.portable_pickles import for_a_driver

FORMAT = 2

_registering = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Packed:
    """A flattened program: a long pipeline is a deep tree, which pickle cannot handle.

    `inputs` has the indexes of the inputs of each transformation.
    """

    transformations: tuple[Transformation, ...]
    inputs: tuple[tuple[int, ...], ...]
    roots: tuple[int, ...]
    settings: GraphSettings


def pack_program(transformations: Sequence[Transformation], settings: GraphSettings) -> bytes:
    """Return a program as bytes, with all code that is not installed."""
    from penstock.pickling import cloudpickling

    steps = steps_of(transformations)
    places = {step.id: place for place, step in enumerate(steps)}
    packed = _Packed(
        tuple(_without_inputs(step) for step in steps),
        tuple(tuple(places[each.id] for each in step.inputs) for step in steps),
        tuple(places[step.id] for step in transformations),
        replace(settings, classes=()),
    )
    head = (FORMAT, sys.version_info[:2])
    with _by_value(user_modules()), for_a_driver():
        content = io.BytesIO()
        pickler = cloudpickling.Pickler(content, 5)
        pickler.dump(packed)
        # Those of the script are known already; these are of its modules, which the JobManager cannot import either.
        known = {(module, name) for module, name, _ in settings.classes}
        classes = tuple(
            each for each in program_classes.pickled(pickler.classes) if each[:2] not in known
        )
    body = pickle.dumps((content.getvalue(), settings.classes + classes), 5)
    return pickle.dumps((head, body), 5)


def unpack_program(data: bytes) -> Program:
    """Return the program of `pack_program`. It executes code in the bytes: only for clients with the write role."""
    try:
        (version, python), body = pickle.loads(data)
    except Exception as error:
        raise InvalidProgramError("cannot read the submitted program") from error
    if version != FORMAT or tuple(python) != sys.version_info[:2]:
        theirs, ours = ".".join(map(str, python)), ".".join(map(str, sys.version_info[:2]))
        raise InvalidProgramError(
            "the program was submitted by another version",
            detail=f"the client has Python {theirs} and format {version}, the JobManager Python {ours} and format {FORMAT}",
            hint="use the same Python and the same Penstock on both sides",
        )
    try:
        content, classes = pickle.loads(body)
        packed: _Packed = pickle.loads(content)
    except ImportError as error:
        raise InvalidProgramError(
            "the program needs a package that the JobManager does not have",
            detail=str(error),
            hint="install it there, or add it with add_python_file",
        ) from error
    except Exception as error:
        raise InvalidProgramError(
            "cannot unpickle the submitted program",
            detail=f"{type(error).__name__}: {error}",
        ) from error
    for step, inputs in zip(packed.transformations, packed.inputs, strict=True):
        step.inputs = tuple(packed.transformations[place] for place in inputs)
    return Program(
        tuple(packed.transformations[place] for place in packed.roots),
        replace(packed.settings, classes=classes),
    )


def user_modules() -> list[ModuleType]:
    """Return the loaded modules of the user: those not in Python, an installed package or Penstock."""
    foreign = _installed_places()
    found = []
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        file = getattr(module, "__file__", None)
        if name == "__main__" or top in {"penstock", "pyflink"} or not isinstance(file, str):
            continue
        if (
            isinstance(module, ModuleType)
            and module.__name__ == name
            and not _is_below(file, foreign)
        ):
            found.append(module)
    return found


def _installed_places() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    places = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {*site.getsitepackages(), site.getusersitepackages()}
    places.add(str(Path(sys.base_prefix, "lib")))
    return tuple(f"{Path(place).resolve()}/" for place in places)


def _is_below(file: str, places: tuple[str, ...]) -> bool:
    return str(Path(file).resolve()).startswith(places) or "/site-packages/" in file


@contextmanager
def _by_value(modules: Sequence[ModuleType]) -> Iterator[None]:
    """Make cloudpickle pickle modules by value."""
    from penstock.pickling import cloudpickling

    with _registering:
        known = set(cloudpickling.list_registry_pickle_by_value())
        added = [module for module in modules if module.__name__ not in known]
        for module in added:
            cloudpickling.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in added:
                cloudpickling.unregister_pickle_by_value(module)


def steps_of(transformations: Sequence[Transformation]) -> list[Transformation]:
    """Return the transformations and all their inputs, each once, inputs first."""
    done: dict[int, Transformation] = {}
    stack: list[tuple[Transformation, bool]] = [(step, False) for step in reversed(transformations)]
    while stack:
        step, expanded = stack.pop()
        if step.id in done:
            continue
        if expanded:
            done[step.id] = step
        else:
            stack.append((step, True))
            stack.extend((each, False) for each in reversed(step.inputs))
    return list(done.values())


def _without_inputs(step: Transformation) -> Transformation:
    alone: Any = copy.copy(step)
    alone.inputs = ()
    return alone  # type: ignore[no-any-return]
