"""Packages for tests, made on the spot: wheels that pip installs without an index."""

from __future__ import annotations

import zipfile
from pathlib import Path


def write_wheel(folder: Path, name: str, version: str, source: str) -> Path:
    """Write a wheel of one module, called as the package is."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            packed.writestr(path, text)
    return wheel


def requirements_of(folder: Path, *lines: str) -> Path:
    """Write a requirements file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "requirements.txt"
    path.write_text("\n".join(lines) + "\n")
    return path
