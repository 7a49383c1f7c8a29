"""Paths and URIs mean one thing, however they are written."""

from __future__ import annotations

import pytest

from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.files.paths import is_hidden, join_path, normalize


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data/words", "/data/words"),
        ("/data/words/", "/data/words"),
        ("/data//words///", "/data/words"),
        ("//data/words", "/data/words"),
        ("/data/x/../words", "/data/words"),
        ("/", "/"),
        ("file:/data/words", "/data/words"),
        ("file:///data/words/", "/data/words"),
        ("file://localhost/data/words", "/data/words"),
        ("file:///data/a%20b", "/data/a b"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/key/", "s3://bucket/key"),
        ("s3://bucket/key/?region=eu-west-1", "s3://bucket/key?region=eu-west-1"),
        ("s3://bucket/key?endpoint_override=host/", "s3://bucket/key?endpoint_override=host/"),
        ("mock:///", "mock:///"),
    ],
)
def test_a_place_has_one_name(path, expected):
    assert normalize(path) == expected
    assert CheckpointFileSystem(path).base == expected
    assert normalize(expected) == expected


def test_paths_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert normalize("x/../y") == str(tmp_path / "y")
    assert normalize((tmp_path / "a b").as_uri()) == str(tmp_path / "a b")
    assert CheckpointFileSystem("x/").base == str(tmp_path / "x")


@pytest.mark.parametrize(("path", "error"), [(5, ArgumentTypeError), ("", ArgumentError)])
def test_invalid_path_is_rejected(path, error):
    with pytest.raises(error):
        normalize(path)


def test_a_name_is_joined_before_the_options():
    assert join_path("s3://bucket/a/?x=1", "b/c") == "s3://bucket/a/b/c?x=1"
    assert join_path("/", "b") == "/b"


@pytest.mark.parametrize(
    ("path", "below", "hidden"),
    [
        ("/a/b", "", False),
        ("/a/.b", "", True),
        ("/a/_b/c", "/a", True),
        ("/.a/b", "/.a", False),
        ("/a/b_c.d", "/a", False),
    ],
)
def test_hidden_paths(path, below, hidden):
    assert is_hidden(path, below) is hidden
