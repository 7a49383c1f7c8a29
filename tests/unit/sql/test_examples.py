"""Each rule has the name of its module, and an example of a plan before and after it. Examples of penstock.sql are run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import penstock.sql
import penstock.sql.rules
from tests.builders.cases import check_all

HELPERS = {"optimizer", "examples"}
RULES = {each.name for each in pkgutil.iter_modules(penstock.sql.rules.__path__)} - HELPERS
MODULES = [each.name for each in pkgutil.walk_packages(penstock.sql.__path__, "penstock.sql.")]


def test_each_rule_shows_what_it_does_to_a_plan() -> None:
    def check(name: str) -> None:
        rule = getattr(importlib.import_module(f"penstock.sql.rules.{name}"), name)
        assert ">>> show_rule(" in rule.__doc__

    check_all({name: name for name in sorted(RULES)}, check)


def test_the_examples_of_docstrings_print_what_they_show() -> None:
    def check(name: str) -> None:
        results = doctest.testmod(importlib.import_module(name))
        assert results.failed == 0

    check_all({name: name for name in MODULES}, check)
