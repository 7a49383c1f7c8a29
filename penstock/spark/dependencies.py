"""Brings a job's Python files, packages, archives and interpreter to its tasks, and to no other job's.

All of it is packed into one bundle, named by what it holds. Spark starts Python workers with a command, and keeps pools of
workers by command: the command of such a job is the bundle itself, which makes the environment where it is started
(`task_environment`). So jobs that need the same share worker processes, and jobs that do not never meet.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.dependencies.python_dependencies import PythonDependencies, local_path
from penstock.errors import JobCancelledError, PenstockError
from penstock.files.file_system import resolve
from penstock.pickling import cloudpickling
from penstock.processes import temporary
from penstock.spark import task_environment
from penstock.spark.task_environment import (
    CLOUDPICKLE,
    DESCRIPTION,
    ONLY,
    REQUIREMENTS,
    PreparationError,
)

if TYPE_CHECKING:
    from pyspark import SparkContext

_lock = (
    threading.Lock()
)  # of a context's `pythonExec`, which counts at the moment when an RDD is made
_shipped: dict[str, set[str]] = {}  # application id -> digests
_LOOK_S = 0.1  # how often to look whether a job was cancelled
_EPOCH = (1980, 1, 1, 0, 0, 0)


class DependenciesError(PenstockError):
    """The packages of a job's tasks could not be installed."""


class WorkerEnvironment:
    """What the workers of one job are started with."""

    def __init__(self, dependencies: PythonDependencies, root: str | None = None) -> None:
        self._dependencies = dependencies
        self._root = root
        self._making = threading.Lock()
        self._bundle: Path | None = None
        self._ready: set[str] = set()  # ids of the prepared applications

    @contextmanager
    def applied(self, context: SparkContext) -> Iterator[None]:
        """Let RDDs that are made inside of a `with` statement run in this environment.

        PySpark makes its part of an RDD when that is first asked for: `_jrdd` has to be asked for inside.
        """
        own = None if self._dependencies.is_empty() else self._command(context)
        with _lock:  # also of jobs without dependencies: they must not get those of another
            before = context.pythonExec
            context.pythonExec = own or before
            try:
                yield
            finally:
                context.pythonExec = before

    def prepare(
        self, context: SparkContext, tasks: int, interrupted: Callable[[], bool] = lambda: False
    ) -> None:
        """Create the environment before workers start in it, so that failures are reported as such.

        Spark starts one worker after the other, of all jobs: it should not wait for packages to be installed. Executors that come later
        make it when a worker starts.
        """
        if self._dependencies.is_empty() or context.applicationId in self._ready:
            return
        bundle = self._packed()
        if _is_local(context):
            failures = [_prepare_here(bundle, interrupted)]
        else:
            self._ship(context)
            with _lock:
                count = max(tasks, 1)
                spread = context.parallelize(range(count), count).map(_Preparation(bundle.name))
                spread._jrdd  # noqa: B018, SLF001 - made with the interpreter of now
            failures = spread.collect()
        for failure in failures:
            if failure is not None:
                message, detail, hint = failure
                raise DependenciesError(message, detail=detail or None, hint=hint or None)
        self._ready.add(context.applicationId)

    def _command(self, context: SparkContext) -> str:
        """Return the command that starts workers, as executors find it."""
        bundle = self._packed()
        if _is_local(context):
            return str(_launcher(bundle))
        self._ship(context)
        return f"./{_launcher(bundle).name}"  # executors start where Spark puts files

    def _ship(self, context: SparkContext) -> None:
        bundle = self._packed()
        with _lock:
            shipped = _shipped.setdefault(context.applicationId, set())
            if bundle.name not in shipped:
                context.addFile(str(bundle))
                context.addFile(str(_launcher(bundle)))
                shipped.add(bundle.name)

    def _packed(self) -> Path:
        with self._making:
            if self._bundle is None:
                self._bundle = pack(self._dependencies, self._root)
            return self._bundle


def _is_local(context: SparkContext) -> bool:
    return context.master == "local" or str(context.master).startswith("local[")


def _launcher(bundle: Path) -> Path:
    return bundle.with_name(f"{bundle.stem}-python")


class _Preparation:
    """Makes an environment in a task; returns what went wrong."""

    def __init__(self, bundle: str) -> None:
        self._bundle = bundle

    def __call__(self, _: int) -> tuple[str, str, str] | None:
        from pyspark import SparkFiles

        return _prepare(SparkFiles.get(self._bundle))


def _prepare_here(bundle: Path, interrupted: Callable[[], bool]) -> tuple[str, str, str] | None:
    """Make an environment on this machine, in a process that ends at once if the job is cancelled."""
    making = subprocess.Popen(  # noqa: S603 - our own command
        [str(_launcher(bundle)), ONLY], stdout=subprocess.PIPE, start_new_session=True
    )
    output: list[bytes] = []
    reading = threading.Thread(target=lambda: output.append(making.communicate()[0]), daemon=True)
    reading.start()
    while reading.is_alive():
        reading.join(_LOOK_S)
        if interrupted() and making.poll() is None:
            os.killpg(making.pid, signal.SIGKILL)
            reading.join()  # the process is reaped, too
            raise JobCancelledError(
                "the job was cancelled while the Python environment of its tasks was created"
            )
    if making.returncode:
        return (
            "cannot create the Python environment of the job's tasks",
            f"exit code {making.returncode}",
            "",
        )
    failure: tuple[str, str, str] | None = json.loads(output[0])
    return failure


def _prepare(bundle: str) -> tuple[str, str, str] | None:
    try:
        task_environment.prepare(Path(bundle).absolute()).release()
    except PreparationError as error:
        return error.message, error.detail, error.hint
    return None


# The bundle


def pack(dependencies: PythonDependencies, root: str | None = None) -> Path:
    """Write the bundle of the tasks' dependencies, and next to it the command that starts workers; return its path.

    Both exist as long as this process: executors that start late fetch them later.
    """
    folder = Path(temporary.create_directory("bundle"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    draft = folder / "draft.zip"
    contents = hashlib.sha256()
    with zipfile.ZipFile(draft, "w") as packed:
        add = _Adding(packed, contents)
        files = [add.python_file(path, f"files/{n}") for n, path in enumerate(dependencies.files)]
        archives = [
            (add.file(path, f"archives/{n}"), target)
            for n, (path, target) in enumerate(dependencies.archives)
        ]
        if dependencies.requirements is not None:
            add.file(dependencies.requirements, "", REQUIREMENTS)
        if dependencies.packages is not None:
            add.folder(_fetched(dependencies.packages), "packages")
        for module in cloudpickling.source_files():
            add.file(str(module), CLOUDPICKLE)
        wanted: dict[str, Any] = {
            "files": files,
            "archives": archives,
            "requirements": dependencies.requirements is not None,
            "executable": dependencies.executable,
            "import_path": list(dependencies.import_path),
            "version": "{}.{}".format(*sys.version_info),
            "pyspark": metadata.version("pyspark"),
            "variables": {cloudpickling.FOLDER: CLOUDPICKLE},
            "root": root,
        }
        contents.update(json.dumps(wanted, sort_keys=True).encode())
        program = Path(task_environment.__file__).read_bytes()
        contents.update(program)
        wanted["digest"] = contents.hexdigest()[:16]
        packed.writestr(DESCRIPTION, json.dumps(wanted))
        packed.writestr("__main__.py", program)
    bundle = draft.rename(folder / f"penstock-{wanted['digest']}.zip")
    launcher = _launcher(bundle)
    python = os.environ.get("PYSPARK_PYTHON") or sys.executable
    launcher.write_text(
        f'#!/bin/sh\nexec {shlex.quote(python)} "$(dirname "$0")/{bundle.name}" "$@"\n',
        encoding="utf-8",
    )
    launcher.chmod(0o755)
    return bundle


class _Adding:
    """Adds files to a bundle, and to the digest of what is in it."""

    def __init__(self, packed: zipfile.ZipFile, contents: Any) -> None:
        self._packed = packed
        self._contents = contents

    def python_file(self, path: str, at: str) -> str:
        """Add a module, an archive or a folder; return the folder that modules are imported from."""
        place = _fetched(path)
        if place.is_dir():
            self.folder(place, at)
        else:
            self._write(place, f"{at}/{place.name}")
        return at

    def file(self, path: str, at: str, name: str | None = None) -> str:
        """Add a file; return its name in the bundle."""
        place = _fetched(path)
        inside = "/".join(filter(None, (at, name or place.name)))
        self._write(place, inside)
        return inside

    def folder(self, place: Path, at: str) -> None:
        """Add all files of a folder."""
        self._packed.writestr(zipfile.ZipInfo(f"{at}/", _EPOCH), b"")
        for path in sorted(place.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                self._write(path, f"{at}/{path.relative_to(place).as_posix()}")

    def _write(self, path: Path, inside: str) -> None:
        self._contents.update(f"{inside} {path.stat().st_size}\n".encode())
        with path.open("rb") as source, self._packed.open(inside, "w", force_zip64=True) as target:
            for block in iter(lambda: source.read(1 << 20), b""):
                self._contents.update(block)
                target.write(block)


def _fetched(path: str) -> Path:
    """Return a file of this machine: that of a path, or a copy of what another file system holds."""
    place = local_path(path)
    if place is not None:
        return place
    files, name = resolve(path)
    copy = Path(temporary.create_directory("fetched")) / Path(name).name
    with copy.open("wb") as target:
        files.copy_into(name, target)
    return copy
