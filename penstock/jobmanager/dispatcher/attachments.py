"""The files of a submission, and the rewriting of their paths in its options."""

from __future__ import annotations

from pathlib import Path

from penstock import options
from penstock.dependencies.python_dependencies import local_path
from penstock.errors import ArgumentError
from penstock.files.paths import normalize
from penstock.jobmanager.dispatcher.submission import FILES
from penstock.options.configuration import Configuration

# Options with shared directories: they must mean the same place for client and JobManager.
_DIRECTORIES = (options.CHECKPOINT_DIR, options.SAVEPOINT_DIR, options.RECOVERY_PATH)


def attach_files(configuration: Configuration) -> tuple[dict[str, str], dict[str, bytes]]:
    """Return the options with rewritten paths, and the files to send."""
    values = configuration.to_dict()
    files: dict[str, bytes] = {}
    for key in ("python.files", "python.archives"):
        entries = [entry.strip() for entry in values.get(key, "").split(",") if entry.strip()]
        if entries:
            values[key] = ",".join(_attached_entry(entry, files) for entry in entries)
    requirements, mark, packages = values.get("python.requirements", "").partition("#")
    if requirements:
        folder = _attached(packages, files) if packages else ""
        values["python.requirements"] = f"{_attached(requirements, files)}{mark}{folder}"
    for option in _DIRECTORIES:
        directory = configuration.get(option)
        if directory is not None and configuration.contains(option):
            values[option.key] = normalize(directory)
    return values, files


def _attached_entry(entry: str, files: dict[str, bytes]) -> str:
    path, mark, target = entry.partition("#")
    return f"{_attached(path, files)}{mark}{target}"


def _attached(path: str, files: dict[str, bytes]) -> str:
    """Add a file, or all files of a directory, and return its new path; paths on other file systems are kept."""
    place = local_path(path)
    if place is None:
        return path
    name = f"{len(files)}/{place.resolve().name}"
    try:
        if not place.is_dir():
            files[name] = place.read_bytes()
            return f"{FILES}{name}"
        for each in sorted(place.rglob("*")):
            if each.is_file() and "__pycache__" not in each.parts:
                files[f"{name}/{each.relative_to(place).as_posix()}"] = each.read_bytes()
    except OSError as error:
        raise ArgumentError(f"cannot read '{path}': {error.strerror}") from error
    if not any(known.startswith(f"{name}/") for known in files):
        raise ArgumentError(
            f"the directory '{path}' is empty",
            hint=f"its absolute path is {Path(place).absolute()}",
        )
    return f"{FILES}{name}"
