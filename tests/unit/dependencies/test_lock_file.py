"""`constraints.txt` has a version for everything that `pyproject.toml` requires, and names no package index."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.builders.cases import check_all

ROOT = Path(__file__).parents[3]
CONSTRAINTS = ROOT / "constraints.txt"


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def required():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    return {str(each): each for requirements in lists for each in map(Requirement, requirements)}


def locked():
    """The locked versions by name. There are several of one name where versions of Python differ."""
    found: dict[str, list[SpecifierSet]] = {}
    for line in CONSTRAINTS.read_text().splitlines():
        if line and not line.startswith("#"):
            each = Requirement(line)
            found.setdefault(normalized(each.name), []).append(each.specifier)
    return found


def test_every_requirement_has_a_version_that_it_allows():
    # `make lock` writes the file again.
    versions = locked()

    def check(requirement):
        pinned = versions[normalized(requirement.name)]
        assert all(next(iter(each)).operator == "==" for each in pinned)
        assert all(next(iter(each)).version in requirement.specifier for each in pinned)

    check_all(required(), check)


def test_no_package_index_is_named():
    assert "://" not in CONSTRAINTS.read_text()
