"""File systems by URI: those that pyarrow has, and those that fsspec has for other schemes."""

from __future__ import annotations

import importlib.util
import inspect
import os
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

# Opening one of these costs: credentials and the region of a bucket are asked for, and connections are made anew.
_SHARED_SCHEMES = frozenset({"s3", "gs", "gcs"})
# A write to these is visible when it is complete, a rename is a copy, and there are no directories.
_OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})
_OBJECT_STORES_OF_FSSPEC = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
# What Hadoop, and so Spark and Flink, call S3.
_S3_ALIASES = frozenset({"s3a", "s3n"})
_WITH_FSSPEC = "fsspec+"
# What else tells where a bucket is and who asks.
_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SESSION_TOKEN",
)

_shared: dict[tuple[Any, ...], tuple[Any, str]] = {}


def open_file_system(uri: str) -> tuple[Any, str]:
    """Return a pyarrow.fs.FileSystem and the path on it that a URI means.

    S3, GCS, Azure and HDFS are pyarrow's own. Any other scheme (`sftp://`, `memory://`, `dbfs://`) is fsspec's, if that
    is installed; `fsspec+s3://` asks for fsspec's file system where pyarrow has one too. Raises what pyarrow or fsspec
    raise; OSError or ValueError as a rule.
    """
    from pyarrow import fs

    scheme, mark, rest = uri.partition("://")
    if scheme in _S3_ALIASES:
        scheme = "s3"
    if mark and scheme in _SHARED_SCHEMES:
        return _open_shared(f"{scheme}://{rest}")
    if scheme.startswith(_WITH_FSSPEC):
        return _open_with_fsspec(uri.removeprefix(_WITH_FSSPEC))
    try:
        return _as_tuple(fs.FileSystem.from_uri(uri))
    except ValueError as error:  # pyarrow does not know the scheme
        if importlib.util.find_spec("fsspec") is None:
            raise ValueError(
                f"{error}; for file systems that pyarrow has not, install fsspec and what it needs for {scheme}"
            ) from error
        import fsspec

        if scheme not in {*fsspec.available_protocols(), *fsspec.registry}:
            raise ValueError(
                f"there is no file system for '{scheme}://', neither in pyarrow nor in fsspec"
            ) from error
        return _open_with_fsspec(uri)


def _open_with_fsspec(uri: str) -> tuple[Any, str]:
    import fsspec
    from pyarrow import fs

    # Without its cache of listings: what other processes write and delete must be seen, leases above all.
    try:
        found, path = fsspec.core.url_to_fs(uri, use_listings_cache=False)
    except ImportError as error:
        raise ValueError(f"fsspec cannot open '{uri}': {error}") from error
    return fs.PyFileSystem(fs.FSSpecHandler(found)), path


def _open_shared(uri: str) -> tuple[Any, str]:
    """Open a bucket once in a process; a forked one has no use for the connections of its parent."""
    from pyarrow import fs

    parts = urlsplit(uri)
    options = parts.query
    if parts.scheme == "s3" and "allow_delayed_open=" not in options:
        # A small file is one request then, not three, and a writer that is killed leaves no upload open.
        options = f"{options}&allow_delayed_open=true".lstrip("&")
    bucket = f"{parts.scheme}://{parts.netloc}"
    key = (os.getpid(), bucket, options, *map(os.environ.get, _VARIABLES))
    found = _shared.get(key)
    if found is None:
        found = _shared[key] = _as_tuple(fs.FileSystem.from_uri(f"{bucket}/?{options}"))
    file_system, root = found
    return file_system, f"{root}/{unquote(parts.path).strip('/')}".rstrip("/")


def _as_tuple(pair: Any) -> tuple[Any, str]:
    file_system, path = pair
    return file_system, path


def is_object_store(file_system: Any) -> bool:
    """Whether a pyarrow.fs.FileSystem has objects instead of files: no renames, no directories, no half-written files."""
    found = getattr(getattr(file_system, "handler", None), "fs", None)
    if found is None:
        return file_system.type_name in _OBJECT_STORES
    names = found.protocol
    return not _OBJECT_STORES_OF_FSSPEC.isdisjoint([names] if isinstance(names, str) else names)


def exclusive_write(file_system: Any) -> Callable[[str, bytes], bool] | None:
    """Return what writes an object unless there is one of its name, and tells whether it did; None if nothing does.

    pyarrow's own file systems have no such call. Those of fsspec for object stores have, if they are of 2025 or later.
    """
    found = getattr(getattr(file_system, "handler", None), "fs", None)
    if found is None or not is_object_store(file_system):
        return None
    write = getattr(found, "_pipe_file", None) or found.pipe_file
    if "mode" not in inspect.signature(write).parameters:
        return None

    def create(path: str, data: bytes) -> bool:
        try:
            found.pipe_file(path, data, mode="create")
        except FileExistsError:
            return False
        return True

    return create
