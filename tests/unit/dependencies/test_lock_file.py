"""`uv.lock`: it is that of `pyproject.toml`, and it names the public index only."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from penstock.dependencies.distribution import DISTRIBUTION

ROOT = Path(__file__).parents[3]
LOCK = ROOT / "uv.lock"
PUBLIC: set[str] = set()


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def required():
    """What the project requires, as (name, extras, version, extra of the project)."""
    lists = {"": project()["dependencies"], **project()["optional-dependencies"]}
    return {
        (normalized(each.name), frozenset(each.extras), each.specifier, extra)
        for extra, requirements in lists.items()
        for each in map(Requirement, requirements)
    }


def locked():
    packages = tomllib.loads(LOCK.read_text())["package"]
    (own,) = (each for each in packages if each["name"] == DISTRIBUTION)
    for each in own["metadata"]["requires-dist"]:
        version = Requirement(f"x{each.get('specifier', '')}").specifier
        extra = re.search(r"extra == '([^']*)'", each.get("marker", ""))
        yield each["name"], frozenset(each.get("extras", ())), version, extra[1] if extra else ""


def test_the_lock_file_is_that_of_the_project():
    # `make lock` writes it again.
    assert set(locked()) == required()
    text = tomllib.loads(LOCK.read_text())
    assert text["requires-python"] == project()["requires-python"]


def test_the_lock_file_names_the_public_index_only():
    assert set(re.findall(r"https?://[^/\"]+", LOCK.read_text())) <= PUBLIC
