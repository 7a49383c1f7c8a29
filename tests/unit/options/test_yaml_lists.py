"""Lists as YAML writes them."""

from __future__ import annotations

import pytest

from penstock.common import Configuration
from penstock.errors import ConfigurationError
from penstock.options.yaml_lists import parse_yaml_list


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a, b]", ["a", "b"]),
        ("a;b", ["a", "b"]),
        ("- a\n- b", ["a", "b"]),
        ("- 1\n- 'x; y'", [1, "x; y"]),
        ("", []),
        (None, []),
        ("[]", []),
        ("a", ["a"]),
        ("['a;b', \"c\"]", ["a;b", "c"]),
        ("a;b,c", ["a", "b,c"]),
        ("[1, 2.5, true, null]", [1, 2.5, True, None]),
        ("[[a,b], c]", [["a", "b"], "c"]),
        ("[0x10, 010, 1_000, yes, on]", [16, 10, 1000, "yes", "on"]),
        ('["a\\n", ~, 1e3, 1.0, -4]', ["a\n", None, 1000.0, 1.0, -4]),
        ("['it''s']", ["it's"]),
    ],
)
def test_lists_are_read_as_pyflink_reads_them(text, expected):
    found = Configuration.parse_list_value(text)
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))


@pytest.mark.parametrize("text", ["[a", "['a]", "[a] b", "[a: 1]", "- 'a' b"])
def test_what_is_not_a_list_is_refused(text):
    with pytest.raises(ConfigurationError, match="is not a list"):
        Configuration.parse_list_value(text)


def test_text_with_semicolons_is_not_a_list_of_yaml():
    assert parse_yaml_list("a;b") is None
