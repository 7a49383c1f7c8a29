"""Parsing, joining and splitting of paths and URIs.

The options of a URI (`s3://bucket/path?region=eu-west-1`) stay at its end when a name is appended: see `join_path`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.errors import ArgumentError, ArgumentTypeError

_GLOB_CHARACTERS = frozenset("*?[")


def normalize(path: Any, what: str = "path") -> str:
    """Return a path or URI as a string with the same meaning on every machine.

    Local paths become absolute, `file:` URIs become local paths, and trailing slashes are removed.

    >>> normalize("file:///data/a%20b/"), normalize("s3://bucket/path/?region=eu-west-1")
    ('/data/a b', 's3://bucket/path?region=eu-west-1')
    """
    try:
        text: str | bytes = os.fspath(path)
    except TypeError:
        raise ArgumentTypeError(
            f"{what} is not a path",
            detail=f"got {path!r}",
            hint="pass a string or a pathlib.Path",
        ) from None
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    if not text:
        raise ArgumentError(f"{what} is empty", hint="pass a directory, a file or a URI")
    if is_local(text):
        trimmed = os.path.normpath(local_path(text))  # symbolic links are kept
        if trimmed.startswith(
            "//"
        ):  # POSIX allows a special meaning for a leading '//', which is not used here
            trimmed = trimmed[1:]
        return trimmed if trimmed.startswith("/") else str(Path.cwd() / trimmed)
    base, options = split_options(text)
    trimmed = base.rstrip("/")
    return (base if trimmed.endswith(":") else trimmed) + options


def is_local(uri: str) -> bool:
    """Whether a path or URI refers to the local file system."""
    return "://" not in uri or uri.startswith("file:")


def local_path(uri: str) -> str:
    """Return the path of a file: URI; a plain path is returned unchanged."""
    if uri.startswith("file:"):
        return unquote(urlsplit(uri).path)
    return uri


def is_absolute(name: str) -> bool:
    """Whether a name is an absolute path or URI, not one relative to a directory."""
    return name.startswith("/") or "://" in name


def split_options(path: str) -> tuple[str, str]:
    """Return a path or URI without its options, and the options with their leading question mark.

    >>> split_options("s3://bucket/path?region=eu-west-1")
    ('s3://bucket/path', '?region=eu-west-1')
    >>> split_options("/is/this/a/path?")
    ('/is/this/a/path?', '')
    """
    if "://" not in path:
        return path, ""
    base, mark, options = path.partition("?")
    return base, mark + options


def join_path(directory: str, name: str) -> str:
    """Return the path or URI of a name below a directory.

    >>> join_path("s3://bucket/path?region=eu-west-1", "chk-1")
    's3://bucket/path/chk-1?region=eu-west-1'
    """
    base, options = split_options(directory)
    return f"{base.rstrip('/')}/{name}{options}"


def split_path(path: str) -> tuple[str, str]:
    """Return the directory that a path or URI is in, and its name there.

    >>> split_path("s3://bucket/path/chk-1/?region=eu-west-1")
    ('s3://bucket/path?region=eu-west-1', 'chk-1')
    """
    base, options = split_options(path)
    directory, _, name = base.rstrip("/").rpartition("/")
    return directory + options, name


def has_glob(path: str) -> bool:
    """Whether a path contains glob characters."""
    return not _GLOB_CHARACTERS.isdisjoint(path)


def is_hidden(path: str, below: str = "") -> bool:
    """Whether a component of the path below a directory begins with a dot or an underscore."""
    relative = path[len(below) :] if below and path.startswith(below) else path
    return any(part[0] in "._" for part in relative.split("/") if part)
