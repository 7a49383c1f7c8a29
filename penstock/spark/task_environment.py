"""Makes the environment that a job's Python workers run in, on the machine where they run, and starts them in it.

Spark starts workers with a command of the job's own; that command is this file. It travels inside the bundle of what the job
needs (`penstock.spark.dependencies`), so it may import nothing but the standard library. What it makes is kept below one
folder for the next job that needs the same:

- `files-<digest>`: modules, and archives that were unpacked;
- `packages-<digest>`: a virtual environment with the packages of a requirements file, over those of the interpreter.

An entry is made under a lock and marked when it is complete, so that one of two who need it makes it, and what a killed process left
half done is made again. A worker process shares the lock of its entries for as long as it lives: those are never deleted.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DESCRIPTION = "bundle.json"
REQUIREMENTS = "requirements.txt"
CLOUDPICKLE = "cloudpickle"  # the folder of the driver's copy
ONLY = "--only-prepare"
_COMPLETE = ".complete"
_UNUSED_S = 30 * 24 * 3600.0
_SHOWN_LINES = 20
_SITE = "import json, sysconfig; print(json.dumps(sorted({sysconfig.get_path(n) for n in ('purelib', 'platlib')})))"
_PATHS = "import json, sys; print(json.dumps([p for p in sys.path if p.endswith(('site-packages', 'dist-packages'))]))"
_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


class PreparationError(Exception):
    """An environment cannot be made: what is wrong, what was found, what to do."""

    def __init__(self, message: str, detail: str = "", hint: str = "") -> None:
        super().__init__(message, detail, hint)
        self.message, self.detail, self.hint = message, detail, hint

    def __str__(self) -> str:
        return "\n".join(filter(None, (self.message, self.detail, self.hint)))


@dataclass
class PreparedEnvironment:
    """A prepared environment: the interpreter, its import path, its working directory, and the locks that protect it.

    `variables` are environment variables of its processes that name folders.
    """

    interpreter: str
    import_path: list[str] = field(default_factory=list)
    directory: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    locks: list[int] = field(default_factory=list)

    def release(self) -> None:
        """Let go of the locks: nothing runs in it."""
        for lock in self.locks:
            os.close(lock)
        self.locks.clear()


def prepare(bundle: Path) -> PreparedEnvironment:
    """Make what a bundle asks for, or find it made; raises PreparationError."""
    with zipfile.ZipFile(bundle) as packed:
        wanted: dict[str, Any] = json.loads(packed.read(DESCRIPTION))
    root = _root(wanted.get("root"))
    prepared = PreparedEnvironment(sys.executable)
    try:
        files = _entry(
            root, f"files-{wanted['digest']}", prepared, lambda at: _unpack(bundle, wanted, at)
        )
        prepared.import_path = [str(files / name) for name in wanted["files"]]
        prepared.variables = {key: str(files / name) for key, name in wanted["variables"].items()}
        if wanted["archives"]:
            prepared.directory = str(files / "work")
        if wanted["executable"] is not None:
            prepared.interpreter = _find(wanted["executable"], files / "work")
            _check_version(prepared.interpreter, wanted["version"])
        if wanted["requirements"]:
            _add_packages(root, files, prepared)
            _check_spark(prepared.interpreter, wanted["pyspark"])
        elif wanted["executable"] is not None:
            prepared.import_path += _ask(prepared.interpreter, _SITE)
        prepared.import_path += wanted["import_path"]
    except BaseException:
        prepared.release()
        raise
    return prepared


# Entries of the cache


def _root(chosen: str | None) -> Path:
    """Return the folder of all entries: one that only this user can write to."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    user = os.geteuid()
    places = [Path(cache, "penstock", "environments")]
    places.append(Path(tempfile.gettempdir(), f"penstock-environments-{user}"))
    for place in [Path(chosen)] if chosen else places:
        with contextlib.suppress(OSError):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = place.stat()
            if status.st_uid == user and os.access(place, os.W_OK | os.X_OK):
                return place.resolve()
    raise PreparationError(
        "no directory for the Python environments of jobs",
        f"{chosen or ' and '.join(map(str, places))} is not writable for this user only",
        "set penstock.python.environments-dir to a directory of the user that runs Spark's executors",
    )


def _entry(
    root: Path, name: str, prepared: PreparedEnvironment, make: Callable[[Path], None]
) -> Path:
    """Return an entry, made now if it is not there; its lock is shared by `prepared` from then on."""
    at = root / name
    while True:
        lock = _lock(root / f"{name}.lock", fcntl.LOCK_SH)
        if (at / _COMPLETE).exists():
            os.utime(lock)
            prepared.locks.append(lock)
            return at
        os.close(lock)
        lock = _lock(root / f"{name}.lock", fcntl.LOCK_EX)
        try:
            if not (at / _COMPLETE).exists():
                shutil.rmtree(at, ignore_errors=True)  # left half done
                at.mkdir(parents=True)
                make(at)
                (at / _COMPLETE).touch()
                _delete_unused(root)
        except BaseException:
            shutil.rmtree(at, ignore_errors=True)
            raise
        finally:
            os.close(lock)


def _lock(path: Path, kind: int) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, kind)
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        os.close(descriptor)  # it was deleted with its entry meanwhile


def _delete_unused(root: Path) -> None:
    """Delete entries that were not used for a month and that no process uses now."""
    for path in root.glob("*.lock"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime < _UNUSED_S:
                continue
            descriptor = os.open(path, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.with_suffix(""), ignore_errors=True)
                path.unlink()
            finally:
                os.close(descriptor)


# Files and archives


def _unpack(bundle: Path, wanted: dict[str, Any], at: Path) -> None:
    with zipfile.ZipFile(bundle) as packed:
        packed.extractall(at)  # noqa: S202 - ours: packed by penstock.spark.dependencies
    for name in wanted["files"]:
        for archive in [path for path in (at / name).iterdir() if path.is_file()]:
            if archive.suffix in {".zip", ".whl", ".egg"}:
                _extract(archive, at / name)
                archive.unlink()
    work = at / "work"
    work.mkdir()
    for name, target in wanted["archives"]:
        _extract(at / name, work / target)
        (at / name).unlink()


def _extract(archive: Path, target: Path) -> None:
    try:
        if zipfile.is_zipfile(archive):
            _extract_zip(archive, target)
        else:
            target.mkdir(parents=True, exist_ok=True)
            with tarfile.open(archive) as packed:
                packed.extractall(target, filter="tar")
    except (tarfile.TarError, zipfile.BadZipFile, OSError, EOFError) as error:
        raise PreparationError(
            f"cannot unpack the archive '{archive.name}'", f"{type(error).__name__}: {error}"
        ) from error


def _extract_zip(archive: Path, target: Path) -> None:
    """Unpack with the permissions and links of the files, which `zipfile` leaves out: interpreters would not run."""
    target.mkdir(parents=True, exist_ok=True)
    links = []
    with zipfile.ZipFile(archive) as packed:
        for member in packed.infolist():
            mode = member.external_attr >> 16
            if stat.S_ISLNK(mode):
                links.append((member.filename, packed.read(member).decode()))
                continue
            path = packed.extract(member, target)
            if stat.S_IMODE(mode) and not member.is_dir():
                os.chmod(path, stat.S_IMODE(mode) | stat.S_IRUSR | stat.S_IWUSR)  # noqa: PTH101
    for name, aim in links:  # after all files, so that none is written through a link
        place = target / name
        if not place.parent.resolve().is_relative_to(target.resolve()):
            raise PreparationError(
                f"the archive '{archive.name}' has a link that points outside of it"
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(aim)


# Interpreters and packages


def _find(executable: str, work: Path) -> str:
    """Return the path of an interpreter: of an archive, by its path in there, or of this machine."""
    inside = work / executable
    found = str(inside) if os.access(inside, os.X_OK) else shutil.which(executable)
    if found is None:
        raise PreparationError(
            f"interpreter '{executable}' not found on the machine of a task",
            "it is the value of option 'python.executable'",
            "use one that exists on all machines, or one inside an archive: archive.zip/bin/python",
        )
    return str(Path(found).absolute())


def _check_version(interpreter: str, wanted: str) -> None:
    found = _run([interpreter, "-c", _VERSION], "the interpreter of option 'python.executable'")
    if found.strip() != wanted:
        raise PreparationError(
            f"the interpreter '{interpreter}' is Python {found.strip()}, but the program runs with {wanted}",
            "pickled functions can only be read by the same version",
            "use interpreters of the same minor version",
        )


def _check_spark(interpreter: str, wanted: str) -> None:
    """Refuse another PySpark than the driver's: its workers do not understand what Spark sends them."""
    own = Path(interpreter).parents[1]
    for folder in own.glob("lib*/python*/site-packages/pyspark-*.dist-info"):
        found = folder.name.removeprefix("pyspark-").removesuffix(".dist-info")
        if found != wanted:
            raise PreparationError(
                f"the Python requirements of the job install pyspark {found}, but the driver has {wanted}",
                "Spark and its Python workers must have the same version",
                f"remove pyspark from the requirements, or require pyspark=={wanted}",
            )


def _add_packages(root: Path, files: Path, prepared: PreparedEnvironment) -> None:
    """Run the tasks in a virtual environment over the interpreter, with the packages of a requirements file."""
    base = prepared.interpreter
    digest = hashlib.sha256(f"{base} {sys.version}\n".encode())
    digest.update((files / REQUIREMENTS).read_bytes())
    packages = files / "packages"
    for path in sorted(packages.rglob("*")) if packages.is_dir() else []:
        digest.update(f"{path.relative_to(packages)} {path.stat().st_size}\n".encode())
        if path.is_file():
            digest.update(path.read_bytes())
    name = f"packages-{digest.hexdigest()[:16]}"
    at = _entry(root, name, prepared, lambda place: _install(base, files, place))
    prepared.interpreter = str(at / "bin" / "python")
    prepared.import_path += _ask(prepared.interpreter, _SITE)


def _install(base: str, files: Path, at: Path) -> None:
    what = "the virtual environment of a requirements file"
    _run([base, "-m", "venv", "--without-pip", str(at)], what)
    python = str(at / "bin" / "python")
    # What the interpreter has besides counts too, after what is installed here: an environment of its own would lack pyspark.
    lines = [f"import site; site.addsitedir({path!r})\n" for path in _ask(base, _PATHS)]
    Path(_ask(python, _SITE)[0], "beneath.pth").write_text("".join(lines), encoding="utf-8")
    pip = [base, "-m", "pip", "--python", python]
    if subprocess.run([base, "-c", "import pip"], capture_output=True, check=False).returncode:  # noqa: S603
        _run([python, "-m", "ensurepip", "--default-pip"], "pip, which the interpreter lacks,")
        pip = [python, "-m", "pip"]
    command = [*pip, "install", "--disable-pip-version-check", "--no-input", "-r", str(files / REQUIREMENTS)]  # fmt: skip
    if (files / "packages").is_dir():
        command += ["--no-index", "--find-links", str(files / "packages")]
    _run(command, "the Python requirements of the job")


def _ask(interpreter: str, question: str) -> list[str]:
    answer: list[str] = json.loads(_run([interpreter, "-c", question], "an interpreter's paths"))
    return answer


def _run(command: list[str], what: str) -> str:
    """Run a command and return its output; `what` is named in the error if it fails."""
    environment = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME"}}
    try:
        done = subprocess.run(  # noqa: S603 - configured by the job's owner
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise PreparationError(
            f"could not obtain {what}", f"{command[0]}: {error.strerror}"
        ) from error
    if done.returncode:
        lines = f"{done.stdout}{done.stderr}".strip().splitlines()[-_SHOWN_LINES:]
        raise PreparationError(
            f"could not obtain {what}", "\n".join(lines), f"the command was: {command}"
        )
    return done.stdout


def main(bundle: Path, arguments: list[str]) -> None:
    """Become the interpreter that Spark asked for, in the environment of a bundle; or only create it and print the result."""
    only = arguments == [ONLY]
    try:
        prepared = prepare(bundle)
    except PreparationError as error:
        if only:
            sys.stdout.write(json.dumps([error.message, error.detail, error.hint]))
            return
        sys.stderr.write(f"penstock: {error}\n")
        raise SystemExit(1) from None
    if only:
        sys.stdout.write("null")
        return
    inherited = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    spark = [entry for entry in inherited if "py4j-" in entry or entry.endswith("pyspark.zip")]
    path = [*spark, *prepared.import_path, *inherited, str(bundle.with_name("penstock.zip"))]
    unique = dict.fromkeys(str(Path(entry).absolute()) for entry in path)
    os.environ["PYTHONPATH"] = os.pathsep.join(unique)
    os.environ["PYSPARK_PYTHON"] = prepared.interpreter
    os.environ.update(prepared.variables)
    for lock in prepared.locks:
        os.set_inheritable(lock, True)
    if prepared.directory is not None:
        os.chdir(prepared.directory)
    os.execv(prepared.interpreter, [prepared.interpreter, *arguments])  # noqa: S606 - the point


if __name__ == "__main__":
    main(Path(sys.argv[0]).absolute(), sys.argv[1:])
