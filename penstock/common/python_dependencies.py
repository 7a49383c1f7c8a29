"""What a program's tasks need besides the program: Python files, and what PyFlink names that is not supported.

The options have PyFlink's names, `python.files` and so on. What would be ignored is refused.
"""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.common import temporary
from penstock.errors import (
    ArgumentError,
    ArgumentTypeError,
    ConfigurationError,
    UnsupportedOperationError,
)

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL")

# What PyFlink does for tasks and Penstock does not: (what it is for, what to do in its place).
_NOT_DONE = {
    "python.archives": (
        "no archive is unpacked beside tasks",
        "unpack it where all workers see it and open its files by their full paths; modules go into add_python_file",
    ),
    "python.requirements": (
        "no package is installed for tasks",
        "install the packages into the environment that runs the program: pip install -r requirements.txt",
    ),
    "python.pythonpath": (
        "the path of imports is the one that tasks start with",
        "name the files and folders with add_python_file, or set PYTHONPATH before the program starts",
    ),
}


def check_python_file(path: object) -> str:
    """Return the path of a Python file, folder or archive as text; refuse what is not there.

    What another file system holds (`hdfs://...`) is looked for by Spark.
    """
    if not isinstance(path, str | Path) or not str(path):
        raise ArgumentTypeError(f"file_path must be a path, got {path!r}")
    text = str(path)
    if "," in text:
        raise ArgumentError(
            f"the path '{text}' has a comma in it", hint="call add_python_file once for each file"
        )
    place = _local(text)
    if place is not None and not place.exists():
        raise ArgumentError(
            f"the Python file '{text}' does not exist",
            detail=f"it was looked for as {place.absolute()}",
            hint="name a .py file, a .zip or .whl archive, or a folder with modules",
        )
    return text


def check_cached_file(path: str) -> None:
    """Refuse a file that is not there; what another file system holds (`hdfs://...`) is not looked for."""
    place = _local(path)
    if place is not None and not place.exists():
        raise ArgumentError(
            f"the file '{path}' does not exist",
            detail=f"it was looked for as {place.absolute()}",
            hint="name a file or folder that is there before the job starts",
        )


def split_python_files(text: str) -> tuple[str, ...]:
    """Return the paths of the option `python.files`."""
    return tuple(filter(None, (path.strip() for path in text.split(","))))


def add_to_import_path(paths: Iterable[str]) -> list[str]:
    """Let this process import what files hold; return what was added to `sys.path`."""
    added: list[str] = []
    for path in paths:
        place = _local(path)
        if place is None:
            raise UnsupportedOperationError(
                f"'{path}' cannot be imported without Spark",
                hint="name a file of this machine, or run the program on Spark",
            )
        folder = str((place.parent if place.suffix == ".py" else place).resolve())
        if folder not in sys.path:
            sys.path.insert(1 + len(added), folder)
            added.append(folder)
    return added


def as_shippable(path: str) -> str:
    """Return what Spark can send for a path: for a folder, a new archive of what is in it."""
    place = _local(path)
    if place is None or not place.is_dir():
        return path
    packed = Path(temporary.create_directory("files")) / place.resolve().name
    return shutil.make_archive(str(packed), "zip", place)


def check_python_option(key: str, value: Any) -> None:
    """Refuse an option by which a program asks for what tasks would not get, and levels that are none."""
    if key == "python.files":
        for path in split_python_files(value):
            check_python_file(path)
    if key == "python.logging.level.overrides":
        for name, level in value.items():
            _check_level(level, f"of '{name}' in option '{key}'")
    if key in _NOT_DONE and value:
        detail, hint = _NOT_DONE[key]
        raise UnsupportedOperationError(
            f"option '{key}' is not supported",
            detail=f"it was set to '{value}', and {detail}",
            hint=hint,
        )
    if key == "python.executable" and not is_this_interpreter(str(value)):
        raise UnsupportedOperationError(
            "option 'python.executable' names another interpreter",
            detail=f"it is '{value}', and tasks run with {sys.executable}, as the program does",
            hint=f"start the program with '{value}', or leave the option out",
        )


def is_this_interpreter(executable: str) -> bool:
    """Whether a path or command is the interpreter of this process, with the same packages."""
    found = shutil.which(executable)
    if found is None:
        return False
    theirs, ours = Path(found).absolute(), Path(sys.executable).absolute()
    # Interpreters of virtual environments are links to one file: the folder tells them apart.
    same_folder = theirs.parent.resolve() == ours.parent.resolve()
    return same_folder and theirs.resolve() == ours.resolve()


def set_log_levels(default: str | None, overrides: Mapping[str, str]) -> None:
    """Set the levels of this process's loggers: of all, and of single ones by name."""
    if default is not None:
        logging.basicConfig(
            level=default
        )  # what is below WARNING is shown nowhere without a handler
        logging.getLogger().setLevel(default)
    for name, level in overrides.items():
        logging.getLogger(name).setLevel(_check_level(level, f"of '{name}'"))


def _check_level(level: str, which: str) -> str:
    if level.upper() not in LOG_LEVELS:
        raise ConfigurationError(
            f"the log level {which} cannot be '{level}'", hint=f"use one of {', '.join(LOG_LEVELS)}"
        )
    return level.upper()


def _local(path: str) -> Path | None:
    """Return the place of a path on this machine; None if another file system holds it."""
    if path.startswith("file:"):
        return Path(unquote(urlsplit(path).path))  # without the host of file://localhost/a
    return None if "://" in path else Path(path)


__all__ = [
    "LOG_LEVELS",
    "add_to_import_path",
    "as_shippable",
    "check_cached_file",
    "check_python_file",
    "check_python_option",
    "is_this_interpreter",
    "set_log_levels",
    "split_python_files",
]
