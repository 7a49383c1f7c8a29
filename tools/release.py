"""Builds what a release consists of into `dist`, and checks all that it needs. It publishes nothing.

python tools/release.py             used by `make release`
python tools/release.py --check     only whether version, changelog and working tree are ready
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import penstock  # noqa: E402 - of this tree
from tests.builders.installation import BUILT, build, uv  # noqa: E402

_STABLE = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")


def problems(version: str, changelog: str, changes: str) -> list[str]:
    """Return why a version cannot be released."""
    found = []
    if _STABLE.fullmatch(version) is None:
        found.append(f"penstock/__init__.py: '{version}' is not a version to release")
    headings = re.findall(r"^## (\S+) \(([^)]*)\)$", changelog, re.MULTILINE)
    if not headings or headings[0][0] != version:
        found.append(f"CHANGELOG.md: the first section is not '## {version} (DATE)'")
    elif re.fullmatch(r"\d{4}-\d{2}-\d{2}", headings[0][1]) is None:
        found.append(f"CHANGELOG.md: {version} is '{headings[0][1]}', which is not a date")
    if changes:
        found.append(f"uncommitted changes: {', '.join(changes.split()[1::2][:5])}")
    return found


def _state() -> list[str]:
    if uv() is None:
        return ["uv is not available for this platform"]
    status = ["git", "status", "--porcelain"]
    changes = subprocess.run(status, cwd=ROOT, check=True, capture_output=True, text=True)
    return problems(
        penstock.__version__,
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        changes.stdout,
    )


def main() -> int:
    """Check, build, test what was built; return the exit code."""
    found = _state()
    for problem in found:
        sys.stderr.write(f"release: {problem}\n")
    if "--check" in sys.argv:
        return 1 if found else 0
    target = ROOT / "dist"
    shutil.rmtree(target, ignore_errors=True)
    built = build(target)
    suites = ("tests/unit/dependencies", "tests/e2e/test_installed_package.py")
    code = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *suites],
        cwd=ROOT,
        env={**os.environ, BUILT: str(target)},
        check=False,
    ).returncode
    for file in (built.sdist, built.wheel):
        sys.stdout.write(f"{file.relative_to(ROOT)}  {file.stat().st_size / 1e6:.1f} MB\n")
    if code or found:
        sys.stderr.write("release: not ready, see above\n")
        return 1
    name = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]
    sys.stdout.write(f"{name} {penstock.__version__} is ready: see docs/developers/versioning.md\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
