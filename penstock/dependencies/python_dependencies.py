"""What a program's tasks need besides the program: Python files, packages, archives, and the interpreter that runs them.

The options have PyFlink's names and forms: `python.files`, `python.requirements`, `python.archives`, `python.executable` and
`python.pythonpath`. `penstock.spark.dependencies` brings them to the tasks.
"""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.errors import (
    ArgumentError,
    ArgumentTypeError,
    ConfigurationError,
    UnsupportedOperationError,
)

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL")
ARCHIVE_SUFFIXES = (".zip", ".jar", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_PARAMETER = "#"  # between a path and what belongs to it, as PyFlink has it


@dataclass(frozen=True, slots=True)
class PythonDependencies:
    """What the tasks of one job need besides its program."""

    files: tuple[str, ...] = ()
    requirements: str | None = None
    packages: str | None = None  # a folder of packages that requirements are installed from
    archives: tuple[tuple[str, str], ...] = ()  # with the folder that each is unpacked to
    executable: str | None = None
    import_path: tuple[str, ...] = ()  # folders that are on the machines of the tasks already

    def is_empty(self) -> bool:
        """Whether tasks run as the program does."""
        return self == PythonDependencies()


def dependencies_of(settings: Mapping[str, str]) -> PythonDependencies:
    """Return what options ask for; the program's own interpreter is not asked for."""
    requirements, _, packages = settings.get("python.requirements", "").partition(_PARAMETER)
    executable = settings.get("python.executable")
    return PythonDependencies(
        split_python_files(settings.get("python.files", "")),
        requirements or None,
        packages or None,
        split_archives(settings.get("python.archives", "")),
        None if executable is None or is_this_interpreter(executable) else executable,
        tuple(filter(None, settings.get("python.pythonpath", "").split(":"))),
    )


def check_python_file(path: object) -> str:
    """Return the path of a Python file, folder or archive as text; refuse what is not there.

    What another file system holds (`hdfs://...`) is looked for when the job starts.
    """
    return _check_path(
        path,
        "file_path",
        "the Python file",
        "pass a .py file, a .zip or .whl archive, or a directory with modules",
    )


def requirements_option(path: object, packages: object = None) -> str:
    """Return the option `python.requirements` for a file and, if there is one, a folder of packages."""
    file = _check_path(
        path,
        "requirements_file_path",
        "the requirements file",
        "pass a file with one requirement per line",
    )
    if packages is None:
        return file
    folder = _check_path(
        packages,
        "requirements_cache_dir",
        "the directory of packages",
        f"create it with: pip download -d {packages} -r {file}",
    )
    place = local_path(folder)
    if place is not None and not place.is_dir():
        raise ArgumentError(f"requirements_cache_dir '{folder}' is not a directory")
    return f"{file}{_PARAMETER}{folder}"


def archive_option(path: object, target: object = None) -> str:
    """Return an entry of the option `python.archives`: an archive and the folder that it is unpacked to."""
    archive = _check_path(path, "archive_path", "the archive", "pass a .zip or .tar.gz file")
    if not archive.lower().endswith(ARCHIVE_SUFFIXES):
        raise ArgumentError(
            f"unsupported archive format '{archive}'",
            hint=f"use one of {', '.join(ARCHIVE_SUFFIXES)}",
        )
    if target is None:
        return archive
    if not isinstance(target, str) or not target:
        raise ArgumentTypeError(f"target_dir must be a name, got {target!r}")
    place = PurePosixPath(target)
    if place.is_absolute() or ".." in place.parts or set(target) & set(",#"):
        raise ArgumentError(
            f"target_dir cannot be '{target}'",
            detail="archives are unpacked below the working directory of tasks",
            hint="use a relative name, such as 'data'",
        )
    return f"{archive}{_PARAMETER}{target}"


def split_archives(text: str) -> tuple[tuple[str, str], ...]:
    """Return the archives of the option `python.archives`, each with its folder: by default the name of its file.

    >>> split_archives("/data/a.zip, b.tar.gz#b")
    (('/data/a.zip', 'a.zip'), ('b.tar.gz', 'b'))
    """
    entries = [entry.strip().partition(_PARAMETER) for entry in text.split(",") if entry.strip()]
    return tuple((path, target or PurePosixPath(path).name) for path, _, target in entries)


def _check_path(path: object, name: str, what: str, hint: str) -> str:
    if not isinstance(path, str | Path) or not str(path):
        raise ArgumentTypeError(f"{name} must be a path, got {path!r}")
    text = str(path)
    for separator in (",", _PARAMETER):
        if separator in text:
            word = "comma" if separator == "," else "number sign"
            raise ArgumentError(
                f"the path '{text}' contains a {word}", hint="call the method once for each file"
            )
    place = local_path(text)
    if place is not None and not place.exists():
        raise ArgumentError(
            f"{what} '{text}' does not exist",
            detail=f"its absolute path is {place.absolute()}",
            hint=hint,
        )
    return text


def check_cached_file(path: str) -> None:
    """Refuse a file that is not there; what another file system holds (`hdfs://...`) is not looked for."""
    place = local_path(path)
    if place is not None and not place.exists():
        raise ArgumentError(
            f"the file '{path}' does not exist",
            detail=f"its absolute path is {place.absolute()}",
            hint="give a file or directory that exists before the job starts",
        )


def split_python_files(text: str) -> tuple[str, ...]:
    """Return the paths of the option `python.files`."""
    return tuple(filter(None, (path.strip() for path in text.split(","))))


def add_to_this_process(dependencies: PythonDependencies) -> list[str]:
    """Let tasks that are threads of this process import files; return what was added to `sys.path`.

    Packages, archives and interpreters need processes of their own: those are refused.
    """
    for name, given in (
        ("python.requirements", dependencies.requirements),
        ("python.archives", dependencies.archives),
        ("python.executable", dependencies.executable),
    ):
        if given:
            raise UnsupportedOperationError(
                f"option '{name}' needs Spark",
                detail="without Spark tasks are threads of the program and use its packages",
                hint="run the program on Spark, or install what it needs where it runs",
            )
    return add_to_import_path([*dependencies.files, *dependencies.import_path])


def add_to_import_path(paths: Iterable[str]) -> list[str]:
    """Let this process import what files hold; return what was added to `sys.path`."""
    added: list[str] = []
    for path in paths:
        place = local_path(path)
        if place is None:
            raise UnsupportedOperationError(
                f"'{path}' cannot be imported without Spark",
                hint="use a file on this machine, or run the program on Spark",
            )
        folder = str((place.parent if place.suffix == ".py" else place).resolve())
        if folder not in sys.path:
            sys.path.insert(1 + len(added), folder)
            added.append(folder)
    return added


def check_python_option(key: str, value: Any) -> None:
    """Refuse an option that names what is not there, and levels that are none."""
    if key == "python.files":
        for path in split_python_files(value):
            check_python_file(path)
    if key == "python.requirements" and value:
        file, _, packages = str(value).partition(_PARAMETER)
        requirements_option(file, packages or None)
    if key == "python.archives":
        for entry in filter(None, (part.strip() for part in str(value).split(","))):
            path, _, target = entry.partition(_PARAMETER)
            archive_option(path, target or None)
    if key == "python.logging.level.overrides":
        for name, level in value.items():
            _check_level(level, f"of '{name}' in option '{key}'")


def is_this_interpreter(executable: str) -> bool:
    """Whether a path or command is the interpreter of this process, with the same packages."""
    found = shutil.which(executable)
    if found is None:
        return False
    theirs, ours = Path(found).absolute(), Path(sys.executable).absolute()
    # Interpreters of virtual environments are links to one file, so the directory distinguishes them.
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


def local_path(path: str) -> Path | None:
    """Return the place of a path on this machine; None if another file system holds it."""
    if path.startswith("file:"):
        return Path(unquote(urlsplit(path).path))  # without the host of file://localhost/a
    return None if "://" in path else Path(path)


__all__ = [
    "ARCHIVE_SUFFIXES",
    "LOG_LEVELS",
    "PythonDependencies",
    "add_to_import_path",
    "add_to_this_process",
    "archive_option",
    "check_cached_file",
    "check_python_file",
    "check_python_option",
    "dependencies_of",
    "is_this_interpreter",
    "local_path",
    "requirements_option",
    "set_log_levels",
    "split_archives",
    "split_python_files",
]
