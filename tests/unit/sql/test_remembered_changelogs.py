"""The changelogs of all kinds of statements are, change for change, what they were: kinds, retractions and state too, which no final table shows."""

from __future__ import annotations

import pytest

from tests.builders.cases import by_name, check_all, part
from tests.unit.sql.changelogs import changelog, remembered
from tests.unit.sql.statement_plans import statements

#: The statements run in so many tests, so that workers can share them.
PARTS = 4


def test_many_statements_are_remembered() -> None:
    assert set(remembered()) <= set(statements())
    assert len(remembered()) >= 90


@pytest.mark.parametrize("number", range(PARTS))
def test_changelogs_are_those_that_are_remembered(number: int) -> None:
    known, named = remembered(), statements()

    def check(name: str) -> None:
        lines, summary = changelog(*named[name])
        assert summary == known[name], (
            f"{named[name][1]}\n"
            + "\n".join(lines)
            + "\nif it is meant to change: python -m tests.unit.sql.changelogs"
        )

    check_all(part(by_name(known, str), number, PARTS), check)
