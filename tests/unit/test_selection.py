"""What `make test` leaves to `make test-full`, and what the quarantine list does."""

from __future__ import annotations

from itertools import combinations, product
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import quarantine
from tests.builders.examples import CI, FULL, examples
from tests.builders.selection import pairwise

AXES = st.lists(st.integers(2, 6), min_size=2, max_size=5)


def cases_of(sizes: list[int]) -> list[tuple[str, ...]]:
    return list(
        product(*([f"{axis}{value}" for value in range(n)] for axis, n in enumerate(sizes)))
    )


def ranks_of(cases: list[tuple[str, ...]]) -> list[int]:
    return [crc32("-".join(case).encode()) for case in cases]


def pairs(cases) -> set:
    return {pair for case in cases for pair in combinations(enumerate(case), 2)}


@given(AXES)
def test_each_two_values_meet_in_a_covering_array(sizes):
    cases = cases_of(sizes)
    chosen = pairwise(cases, ranks_of(cases))
    assert chosen <= set(cases)
    assert pairs(chosen) == pairs(cases)


def test_a_covering_array_of_many_programs_is_half_of_the_product_and_mixes_the_rest():
    cases = cases_of([40, 2, 2])
    chosen = pairwise(cases, ranks_of(cases))
    assert len(chosen) == 80
    together = [
        sum(case[1:] == pair for case in chosen) for pair in product(("10", "11"), ("20", "21"))
    ]
    assert min(together) >= 10


def test_cases_that_do_not_exist_are_not_needed():
    cases = [case for case in cases_of([2, 2, 2]) if case[0] != "00" or case[1] != "10"]
    assert pairs(pairwise(cases, ranks_of(cases))) == pairs(cases)


@pytest.mark.parametrize(("number", "in_ci"), [(300, 100), (100, 33), (20, 10), (4, 4)])
def test_make_test_tries_a_part_of_the_examples_and_make_test_full_all(number, in_ci):
    chosen = settings.get_current_profile_name()
    try:
        settings.load_profile(CI)
        assert examples(number) == in_ci
        settings.load_profile(FULL)
        assert examples(number) == number
    finally:
        settings.load_profile(chosen)


ENTRY = """
[[test]]
test = "tests/x.py::test_y"
owner = "ann"
since = 2026-01-31
reason = "a race"
"""


def test_a_quarantine_entry_names_owner_and_date():
    [entry] = quarantine.read(ENTRY)
    assert str(entry) == "tests/x.py::test_y (ann, since 2026-01-31): a race"


@pytest.mark.parametrize(
    ("line", "replaced"),
    [
        ('owner = "ann"', 'owner = ""'),
        ("since = 2026-01-31", 'since = "today"'),
        ('reason = "a race"', 'reason = ""'),
    ],
)
def test_an_incomplete_quarantine_entry_is_refused(line, replaced):
    with pytest.raises(ValueError, match="needs owner, since, reason"):
        quarantine.read(ENTRY.replace(line, replaced))


def test_every_quarantined_test_exists():
    root = quarantine.PATH.parents[1]
    for entry in quarantine.read(quarantine.PATH.read_text()):
        module, _, name = entry.test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (root / module).read_text(), entry


def test_a_quarantined_test_runs_and_its_failure_does_not_fail_the_run(pytester, monkeypatch):
    listed = pytester.path / "quarantine.toml"
    listed.write_text(ENTRY.replace("tests/x.py::test_y", "test_listed.py::test_fails"))
    monkeypatch.setattr(quarantine, "PATH", listed)
    pytester.makeconftest(
        "from tests.builders import quarantine\n"
        "def pytest_terminal_summary(terminalreporter):\n"
        "    for line in quarantine.report(): terminalreporter.write_line(line)\n"
        "def pytest_collection_modifyitems(items): quarantine.mark(items)\n"
    )
    pytester.makepyfile(
        test_listed="def test_fails(): assert False\ndef test_passes(): pass\n",
    )
    outcome = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=1, xfailed=1)
    outcome.stdout.fnmatch_lines(
        ["quarantine: 1 tests", "  test_listed.py::test_fails (ann, since*"]
    )
