"""Opens file systems by URI: pyarrow's own, and fsspec's for other schemes."""

from __future__ import annotations

import importlib.util
import inspect
import os
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

# Opening these is expensive: it looks up credentials and the region of a bucket, and opens connections.
_SHARED_SCHEMES = frozenset({"s3", "gs", "gcs"})
# On these a write becomes visible when it is complete, a rename is a copy, and there are no directories.
_OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})
_OBJECT_STORES_OF_FSSPEC = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
# Hadoop's schemes for S3, also used by Spark and Flink.
_S3_ALIASES = frozenset({"s3a", "s3n"})
_WITH_FSSPEC = "fsspec+"
# Further URI options that determine the location of and access to a bucket.
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
    """Return the pyarrow.fs.FileSystem of a URI, and the path on it.

    S3, GCS, Azure and HDFS are pyarrow's own. Any other scheme (`sftp://`, `memory://`, `dbfs://`) is opened by fsspec, if
    that is installed; `fsspec+s3://` selects fsspec where pyarrow supports the scheme too. Raises the exceptions of pyarrow
    and fsspec, usually OSError or ValueError.
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
                f"{error}; for file systems that pyarrow does not support, install fsspec and its driver for {scheme}"
            ) from error
        import fsspec

        if scheme not in {*fsspec.available_protocols(), *fsspec.registry}:
            raise ValueError(f"no file system for '{scheme}://' in pyarrow or fsspec") from error
        return _open_with_fsspec(uri)


def _open_with_fsspec(uri: str) -> tuple[Any, str]:
    import fsspec
    from pyarrow import fs

    # Without fsspec's listing cache: writes and deletes of other processes must be seen, above all for leases.
    try:
        found, path = fsspec.core.url_to_fs(uri, use_listings_cache=False)
    except ImportError as error:
        raise ValueError(f"fsspec cannot open '{uri}': {error}") from error
    return fs.PyFileSystem(fs.FSSpecHandler(found)), path


def _open_shared(uri: str) -> tuple[Any, str]:
    """Open a bucket once per process; a forked process cannot use the connections of its parent."""
    from pyarrow import fs

    parts = urlsplit(uri)
    options = parts.query
    if parts.scheme == "s3" and "allow_delayed_open=" not in options:
        # A small file is then one request instead of three, and a killed writer leaves no open upload.
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
    """Whether a pyarrow.fs.FileSystem is an object store: no renames, no directories, no partially written files."""
    found = getattr(getattr(file_system, "handler", None), "fs", None)
    if found is None:
        return file_system.type_name in _OBJECT_STORES
    names = found.protocol
    return not _OBJECT_STORES_OF_FSSPEC.isdisjoint([names] if isinstance(names, str) else names)


def exclusive_write(file_system: object) -> Callable[[str, bytes], bool] | None:
    """Return a function that writes an object unless it exists and returns whether it did; None if not supported.

    pyarrow's own file systems have no such call. fsspec's file systems for object stores have it since 2025.
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
