"""Builds Penstock's wheel and sdist, and installs one into an empty environment, as a user does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILT = "PENSTOCK_DIST"  # where a release was built, to be tested as it is
# Beside this environment rather than in /tmp, where uv would have to copy a gigabyte that it can link.
WORK = ROOT / "build"
# Another uv may be building PySpark in the same cache: that is waited for, however busy the machine is.
LOCK_TIMEOUT = "7200"


@dataclass(frozen=True)
class Built:
    """The two files that a release consists of."""

    wheel: Path
    sdist: Path


@dataclass(frozen=True)
class Installation:
    """An environment with nothing but Penstock and what it needs."""

    python: Path
    home: Path  # where its commands run: outside of the repository

    def environment(self, **more: str) -> dict[str, str]:
        """Return environment variables without any that lead back to the repository."""
        ours = ("PYTHON", "VIRTUAL_ENV", "PENSTOCK", "PYTEST", "SPARK", "PYSPARK")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        path = os.pathsep.join(
            [str(self.python.parent)]
            + [part for part in os.environ["PATH"].split(os.pathsep) if ".venv" not in part]
        )
        return {**kept, "PATH": path, "PENSTOCK_HOME": str(self.home / "penstock-home"), **more}

    def run(self, *command: str, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment to its end."""
        done = subprocess.run(
            [str(self.python.parent / command[0]), *command[1:]],
            cwd=self.home,
            env=self.environment(**more),
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, f"{command}: {done.stdout}\n{done.stderr}"
        return done


def uv() -> str | None:
    """Return the path of uv, which set-up installs where there is a wheel of it."""
    return shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")


def build(folder: Path) -> Built:
    """Build the sdist, and the wheel from it; or return what PENSTOCK_DIST has."""
    ready = os.environ.get(BUILT)
    if ready is None:
        _uv("build", "--quiet", "--out-dir", str(folder), str(ROOT))
    found = Path(ready) if ready else folder
    (wheel,), (sdist,) = found.glob("*.whl"), found.glob("*.tar.gz")
    return Built(wheel.absolute(), sdist.absolute())


def install(what: str, environment: Path, home: Path) -> Installation:
    """Install a file, such as `x.whl[avro]`, into a new environment."""
    _uv("venv", "--quiet", "--clear", "--python", sys.executable, str(environment))
    python = environment / "bin" / "python"
    locked = ("--constraint", str(ROOT / "constraints.txt"))
    _uv("pip", "install", "--quiet", "--python", str(python), *locked, what)
    return Installation(python, home)


def _uv(*arguments: str) -> None:
    """Run uv with what set-up has left in its cache, or else with the package index.

    With an index, uv asks again whether a source distribution has changed: without an answer that says how long it is
    valid, it would download and build half a gigabyte of PySpark again.
    """
    command = uv()
    assert command is not None
    for more in (("--offline",), ()):
        done = subprocess.run(
            [command, *arguments, "--system-certs", *more],
            cwd=ROOT,
            env={**os.environ, **_index(), "UV_LOCK_TIMEOUT": LOCK_TIMEOUT},
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            return
    raise AssertionError(done.stderr)


def _index() -> Mapping[str, str]:
    """Return the package index that pip is configured to use: uv does not read pip's configuration."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True
    ).stdout
    found = re.findall(r"^(?:global|install|:env:)\.index-url='(.*)'$", listed, re.MULTILINE)
    return {"UV_DEFAULT_INDEX": found[-1]} if found else {}
