"""What keeps a version from being released."""

from __future__ import annotations

import pytest

from tools.release import problems

CHANGELOG = "# Changelog\n\n## 1.2.0 (2027-01-31)\n\n- New.\n\n## 1.1.0 (2026-12-01)\n"


def test_a_version_with_a_dated_section_and_nothing_left_to_do_is_ready():
    assert problems("1.2.0", CHANGELOG, "") == []
    assert problems("1.2.0rc1", CHANGELOG.replace("1.2.0", "1.2.0rc1"), "") == []


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"version": "1.2"}, "is not a version to release"),
        ({"version": "1.2.0.dev1"}, "is not a version to release"),
        ({"version": "1.3.0"}, "the first section is not '## 1.3.0"),
        ({"changelog": ""}, "the first section is not"),
        ({"changelog": CHANGELOG.replace("2027-01-31", "unreleased")}, "is not a date"),
        ({"changes": " M README.md\n?? new.py\n"}, "uncommitted changes: README.md, new.py"),
    ],
)
def test_what_is_missing_is_named(given, complaint):
    ready = {"version": "1.2.0", "changelog": CHANGELOG, "changes": ""}
    assert any(complaint in each for each in problems(**{**ready, **given}))
