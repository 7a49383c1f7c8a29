"""The name under which Penstock is installed: one, everywhere. `penstock` on the public index is another project."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import penstock
from penstock.dependencies.distribution import DISTRIBUTION, install_command

ROOT = Path(__file__).parents[3]
NAME = re.escape(DISTRIBUTION)
OTHER = rf"(?!{NAME}\b)penstock\b"  # also penstock-streams, and the name of the import package

# What installs something else, or what a shell refuses. Each is looked for in single lines.
WRONG = {
    "an extra of another distribution": rf"(?<![\w.-]){OTHER}[\w-]*\[[a-z][a-z, -]*\]",
    "a version of another distribution": rf"(?<![\w.-]){OTHER}(?!/)[\w-]* ?(?:==|~=|>=)",
    "installs another distribution": rf"\b(?:pip3? install|uv add|uv pip install|uv tool install|pipx install|poetry add) (?:[^`\n;|&#]*[ '\"])?{OTHER}",
    "runs another distribution": rf"\b(?:uvx|uv tool run|pipx run) (?:-[-\w]+ (?!['\"]?{NAME}\b)\S+ )*{OTHER}",
    "a pattern of file names for zsh: quote it": rf"(?:install|add|uvx|run|--from|--spec) (?:[^`\n;|&#]* )?{NAME}\[",
    "reads the metadata of another distribution": rf"\b(?:metadata|distribution|version|requires)\(['\"]{OTHER}",
}
HERE = Path(__file__).relative_to(ROOT).as_posix()


def mistakes(text: str) -> list[str]:
    return [what for what, pattern in WRONG.items() if re.search(pattern, text)]


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [ROOT / name for name in listed.stdout.splitlines() if name != HERE]


def test_no_file_names_another_distribution():
    found = []
    for path in tracked_files():
        try:
            text = path.read_text()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        if "penstock" in text:
            found += [
                f"{path.relative_to(ROOT)}:{number}: {'; '.join(wrong)}: {line.strip()[:120]}"
                for number, line in enumerate(text.splitlines(), 1)
                if "penstock" in line and (wrong := mistakes(line))
            ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "pip install penstock",
        "pip install penstock[kafka]",
        "`pip install 'penstock[kafka]'`",
        "RUN pip install --no-cache-dir penstock venv-pack",
        "uv add penstock",
        "uv tool install penstock",
        "uvx penstock run job.py",
        "uvx --with sqlalchemy penstock run job.py",
        "pipx run penstock run job.py",
        "install `penstock[jdbc]`",
        "pip install penstock-streams",
        'dependencies = ["penstock>=0.1"]',
        "penstock==0.1.0",
        "pip install penstock-stream[kafka]",
        "pip install --upgrade penstock-stream[kafka]",
        'importlib.metadata.version("penstock")',
    ],
)
def test_a_wrong_spelling_is_found(line):
    assert mistakes(line)


@pytest.mark.parametrize(
    "line",
    [
        "pip install penstock-stream",
        "pip install 'penstock-stream[kafka]'",
        'RUN pip install --no-cache-dir "penstock-stream[kubernetes]"',
        "env/bin/pip install penstock-stream venv-pack && penstock run job.py",
        "uvx --from penstock-stream penstock run job.py",
        "uvx --from 'penstock-stream[kafka]' penstock run job.py",
        "pipx run --spec penstock-stream penstock run job.py",
        "uv tool install penstock-stream",
        "an extra, such as `penstock-stream[kafka]`",
        'dependencies = ["penstock-stream>=0.1"]',
        "pip install dist/penstock_stream-0.1.0-py3-none-any.whl",
        'details["penstock"] == 3',
    ],
)
def test_a_right_spelling_is_not(line):
    assert mistakes(line) == []


def test_the_constant_is_the_name_of_the_project_and_of_what_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == DISTRIBUTION
    assert metadata.version(DISTRIBUTION) == penstock.__version__


def test_the_command_installs_the_project_of_the_constant():
    assert install_command() == f"pip install {DISTRIBUTION}"
    assert install_command("kafka") == f"pip install '{DISTRIBUTION}[kafka]'"
