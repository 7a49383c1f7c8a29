"""Tests of many cases run all of them and list all that fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builders import cases
from tests.builders.cases import by_name, check_all, part

NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}


def must_be_odd(number: int) -> None:
    assert number % 2 == 1, f"{number} is even"


def test_all_cases_are_checked() -> None:
    seen: list[int] = []
    check_all(NUMBERS, seen.append)
    assert seen == [1, 2, 3, 4, 5]


def test_every_failure_is_listed_with_the_name_of_its_case() -> None:
    with pytest.raises(pytest.fail.Exception) as failed:
        check_all(NUMBERS, must_be_odd)
    message = str(failed.value)
    assert message.startswith("2 of 5 cases failed:")
    assert message.index("--- two") < message.index("2 is even") < message.index("--- four")
    assert "4 is even" in message
    assert "--- one" not in message


def test_any_exception_fails_its_case_only() -> None:
    def check(name: str) -> None:
        if name == "raises":
            raise KeyError("lost")
        if name == "expects":
            with pytest.raises(ValueError, match="never raised"):
                pass
        if name == "skips":
            pytest.skip("not today")

    names = ["raises", "expects", "skips", "passes"]
    with pytest.raises(pytest.fail.Exception) as failed:
        check_all(by_name(names, str), check)
    message = str(failed.value)
    assert message.startswith("3 of 4 cases failed:")
    assert all(each in message for each in ("KeyError: 'lost'", "DID NOT RAISE", "not today"))


def test_no_cases_at_all_fail() -> None:
    with pytest.raises(pytest.fail.Exception, match="no cases"):
        check_all({}, must_be_odd)


def test_two_cases_with_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two cases have the name '1'"):
        by_name([1, 2, True, 1.0], lambda number: str(int(number)))


def test_parts_together_are_all_cases() -> None:
    parts = [part(NUMBERS, number, 3) for number in range(3)]
    assert [list(each) for each in parts] == [["one", "four"], ["two", "five"], ["three"]]
    assert {name: number for each in parts for name, number in each.items()} == NUMBERS


@pytest.fixture
def another_choice() -> Iterator[None]:
    """Keep the case that this run was asked for."""
    before = cases._chosen
    yield
    cases.choose(before)


@pytest.mark.usefixtures("another_choice")
def test_a_case_that_is_chosen_runs_alone() -> None:
    cases.choose("two")
    with pytest.raises(pytest.fail.Exception, match=r"^1 of 1 cases failed:\n--- two\n"):
        check_all(NUMBERS, must_be_odd)
    with pytest.raises(pytest.skip.Exception, match="no case has the name 'two'"):
        check_all({"six": 6}, must_be_odd)


@pytest.mark.usefixtures("another_choice")
def test_the_option_chooses_a_case(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from tests.conftest import pytest_addoption, pytest_configure")
    pytester.makepyfile(
        """
        from tests.builders.cases import check_all

        def test_many():
            check_all({"good": True, "bad": False, "worse": False}, check)

        def check(case):
            assert case
        """
    )
    everything = pytester.runpytest_inprocess()
    everything.stdout.fnmatch_lines(["2 of 3 cases failed:*", "--- bad", "--- worse"])
    pytester.runpytest_inprocess("--case", "good").assert_outcomes(passed=1)
    pytester.runpytest_inprocess("--case", "bad").assert_outcomes(failed=1)
    pytester.runpytest_inprocess("--case", "nothing").assert_outcomes(skipped=1)
