"""How functions are called, as hints and the documentation show it."""

from __future__ import annotations

from penstock.sql.expr.functions.aggregates import AGGREGATES
from penstock.sql.expr.functions.definitions import DEFINITIONS
from tests.builders.cases import check_all

_CLOSES = {")": "(", "]": "["}


def closes_its_brackets(usage):
    opened = []
    for character in usage:
        if character in _CLOSES.values():
            opened.append(character)
        elif character in _CLOSES:
            assert opened
            assert opened.pop() == _CLOSES[character], usage
    assert not opened, usage


def test_each_bracket_of_a_usage_is_closed():
    definitions = (*DEFINITIONS.values(), *AGGREGATES.values())
    check_all({each.name: each.usage for each in definitions}, closes_its_brackets)


def test_a_function_without_parameters_has_empty_parentheses():
    assert DEFINITIONS["PI"].usage == "PI()"
