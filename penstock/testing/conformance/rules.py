"""The rules of the connector contract, and the errors for broken ones."""

from __future__ import annotations

import unittest
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from penstock.testing.conformance.setups import Setup

S = TypeVar("S", bound=Setup)
Check = Callable[[S, Path], None]
ModeCheck = Callable[[S, Path, str], None]

MODES = ("epochs", "pipelined")
_SHOWN = 5  # records in a message


class ConformanceError(AssertionError):
    """A connector breaks a rule. The message names the rule, the step and what was found."""


class BrokenRuleError(Exception):
    """What was found, at which step; the rule is added when the error is raised."""


@dataclass(frozen=True)
class ConformanceRule(Generic[S]):
    """A sentence that is true of every connector, and how to see that it is."""

    sentence: str
    _check: Check[S]

    def check(self, setup: S, directory: Path) -> None:
        """Put a connector through it; files go to a directory that is empty."""
        try:
            self._check(setup, directory)
        except BrokenRuleError as broken:
            raise ConformanceError(f"rule: {self.sentence}\n{broken}") from broken.__cause__

    def __str__(self) -> str:
        return self.sentence


class RuleBook(Generic[S]):
    """The rules for one kind of connector, in their order."""

    def __init__(self) -> None:
        self.rules: list[ConformanceRule[S]] = []

    def rule(self, sentence: str) -> Callable[[Check[S]], Check[S]]:
        """Add a rule."""

        def add(check: Check[S]) -> Check[S]:
            self.rules.append(ConformanceRule(sentence, check))
            return check

        return add

    def rule_in_both_modes(self, sentence: str) -> Callable[[ModeCheck[S]], ModeCheck[S]]:
        """Add a rule about jobs, once for each mode of execution."""

        def add(check: ModeCheck[S]) -> ModeCheck[S]:
            for mode in MODES:
                self.rules.append(ConformanceRule(f"{sentence} ({mode})", _in_mode(check, mode)))
            return check

        return add


def _in_mode(check: ModeCheck[S], mode: str) -> Check[S]:
    return lambda setup, directory: check(setup, directory, mode)


def broken(step: str, found: str) -> BrokenRuleError:
    """Make the error of a broken rule."""
    return BrokenRuleError(f"step: {step}\nfound: {found}")


def does_not_apply(why: str) -> unittest.SkipTest:
    """Create the exception that marks a rule as not applicable to this connector, with and without pytest."""
    return unittest.SkipTest(why)


@contextmanager
def step(name: str) -> Iterator[None]:
    """What is raised inside breaks the rule at this step."""
    try:
        yield
    except (BrokenRuleError, unittest.SkipTest):
        raise
    except Exception as error:
        raise broken(name, f"{type(error).__name__}: {error}") from error


def expect_each_once(
    setup: Setup, where: str, expected: Iterable[Any], found: Iterable[Any], *, twice: bool = False
) -> None:
    """Compare records in any order; `twice`: duplicates are allowed."""
    wanted = Counter(map(setup.identity, expected))
    there = Counter(map(setup.identity, found))
    lost, more = wanted - there, there - wanted
    strange = Counter({record: count for record, count in more.items() if record not in wanted})
    problems = []
    if lost:
        problems.append(f"{lost.total()} of {wanted.total()} records lost, such as {_some(lost)}")
    if strange:
        problems.append(f"{strange.total()} that should not be there, such as {_some(strange)}")
    again = more - strange
    if again and not twice:
        problems.append(f"{again.total()} too often, such as {_some(again)}")
    if problems:
        raise broken(where, "; ".join(problems))


def _some(records: Counter[Any]) -> str:
    texts = [repr(record) for record in list(records)[:_SHOWN]]
    return ", ".join(text if len(text) < 80 else f"{text[:77]}..." for text in texts)
