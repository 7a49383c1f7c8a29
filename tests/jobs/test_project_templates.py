"""`penstock init`: what it creates works as it is: the test passes, the job prints what it should, the README's commands exist."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import penstock
from penstock.cli import main
from penstock.cli.init import DEFAULT, TEMPLATES, create_project
from penstock.cli.main import create_parser
from penstock.dependencies.distribution import DISTRIBUTION
from tests.builders.doc_pages import code_spans, commands

ROOT = Path(__file__).parents[2]
# What the job prints, besides the numbers of subtasks.
PRINTED = {
    "datastream": {"attic rises: 24.0 degrees", "attic rises: 25.5 degrees"},
    "kafka": {
        '{"customer": "ann", "minute": 1735689600000, "cents": 1950}',
        '{"customer": "ann", "minute": 1735689660000, "cents": 425}',
        '{"customer": "bob", "minute": 1735689600000, "cents": 1290}',
        '{"customer": "cid", "minute": 1735689660000, "cents": 150}',
    },
    "sql": {
        "+I[2025-01-01T00:00, ann, 19.50]",
        "+I[2025-01-01T00:00, bob, 12.90]",
        "+I[2025-01-01T00:01, ann, 4.25]",
        "+I[2025-01-01T00:01, cid, 1.50]",
    },
    "cep": {"4711: 2 small payments, then 250000 cents"},
    "pyflink": {"(to,1)", "(to,2)", "(to,3)", "(fortune,1)"},
}
each_template = pytest.mark.parametrize("template", TEMPLATES)


@pytest.fixture
def project(tmp_path, template):
    folder = tmp_path / f"my-{template}"
    create_project(folder, template)
    return folder


def run(folder, *command):
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@each_template
def test_the_test_of_a_new_project_passes(project):
    output = run(project, "pytest", "-p", "no:cacheprovider")
    assert " passed" in output
    assert "warning" not in output


@each_template
def test_the_job_of_a_new_project_runs(project, template):
    words = TEMPLATES[template].try_it.split()
    assert words[:3] == ["penstock", "run", "--no-spark"]
    printed = run(project, *words)
    lines = {line.partition("> ")[2] for line in printed.splitlines() if "> " in line}
    assert lines >= PRINTED[template]
    if template != "pyflink":  # there, each word is printed
        assert lines == PRINTED[template]


@each_template
def test_a_new_project_passes_the_linter_and_the_formatter(project):
    for action in (
        ["check", "--ignore", "D,ANN,S101,PTH,T201,INP001,I001"],
        ["format", "--check"],
    ):
        run(project, "ruff", *action, "--config", str(ROOT / "pyproject.toml"), str(project))


@each_template
def test_the_readme_names_files_and_commands_that_exist(project, template):
    readme = (project / "README.md").read_text()
    assert "{{" not in readme
    called = list(commands(readme.replace("uv run ", ""), "penstock"))
    assert TEMPLATES[template].try_it.split()[1:] in called
    for words in called:
        assert callable(create_parser().parse_args(words).call)
    for path, _ in TEMPLATES[template].files:
        assert (project / path).is_file()
        assert path in code_spans(readme)
    written = {path.relative_to(project).as_posix() for path in project.rglob("*.*")}
    listed = {path for path, _ in TEMPLATES[template].files}
    assert written == listed | {"README.md", "pyproject.toml", ".gitignore"}


@each_template
def test_a_new_project_requires_this_version_with_the_extra(project, template):
    made = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert made["name"] == f"my-{template}"
    (requirement,) = map(Requirement, made["dependencies"])
    extra = TEMPLATES[template].extra
    assert requirement.name == DISTRIBUTION
    assert requirement.extras == ({extra} if extra else set())
    assert penstock.__version__ in requirement.specifier
    own = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert made["requires-python"] == own["requires-python"]
    assert not extra or extra in own["optional-dependencies"]


@pytest.fixture
def with_uv(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")


@pytest.mark.usefixtures("with_uv")
def test_init_says_what_it_created_and_what_is_next(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "clicks"]) == 0
    output = capsys.readouterr().out
    assert output.startswith(f"created clicks from template {DEFAULT}: .gitignore, README.md, ")
    assert "  cd clicks\n  uv run pytest\n" in output


def test_without_uv_pip_installs_what_a_project_needs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert main(["init", "orders", "--template", "kafka"]) == 0
    steps = [line.strip() for line in capsys.readouterr().out.partition("next:\n")[2].splitlines()]
    assert steps == [
        "cd orders",
        f"pip install '{DISTRIBUTION}[kafka]>={penstock.__version__}' pytest",
        "pytest",
        "penstock run --no-spark job.py --sample data/orders.jsonl",
    ]


@pytest.mark.usefixtures("with_uv")
def test_init_as_json(tmp_path, capsys):
    assert main(["init", str(tmp_path / "shop"), "--template", "sql", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["template"] == "sql"
    assert "job.sql" in made["files"]
    assert made["next"] == ["uv run pytest", "uv run penstock run --no-spark job.sql"]


def test_init_does_not_write_into_a_directory_that_has_files(tmp_path, capsys):
    (tmp_path / "job.py").write_text("mine")
    assert main(["init", str(tmp_path)]) == 2
    assert "is not an empty directory" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["job.py"]


def test_an_empty_directory_is_used(tmp_path):
    (tmp_path / "empty").mkdir()
    assert main(["init", str(tmp_path / "empty")]) == 0
    assert (tmp_path / "empty" / "job.py").exists()


@pytest.mark.parametrize("name", ["-", "a b", "ä", "x-", "a'b"])
def test_a_directory_whose_name_is_not_a_projects_is_refused(tmp_path, name, capsys):
    assert main(["init", str(tmp_path / name)]) == 2
    assert "cannot be the name of a project" in capsys.readouterr().err
    assert not (tmp_path / name).exists()
