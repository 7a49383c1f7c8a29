"""Opens file systems by URI: pyarrow's own, and fsspec's for other schemes (`fsspec_files`)."""

from __future__ import annotations

import importlib.util
import os
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.files import fsspec_files

# Opening these is expensive: it looks up credentials and the region of a bucket, and opens connections.
_SHARED_SCHEMES = frozenset({"s3", "gs", "gcs"})
# On these a write becomes visible when it is complete, a rename is a copy, and there are no directories.
_OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})
# Hadoop's schemes for S3, also used by Spark and Flink.
_S3_ALIASES = frozenset({"s3a", "s3n"})
_NO_LIBHDFS = ("libhdfs", "libjvm")  # in pyarrow's messages
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

    S3, GCS and Azure are pyarrow's own, and so is HDFS if hdfs-native is not installed. Any other scheme (`sftp://`,
    `memory://`, `webhdfs://`) is opened by fsspec, if that is installed; `fsspec+s3://` selects fsspec where pyarrow
    supports the scheme too. Raises the exceptions of pyarrow and fsspec, usually OSError or ValueError.
    """
    from pyarrow import fs

    scheme, mark, rest = uri.partition("://")
    if scheme in _S3_ALIASES:
        scheme = "s3"
    if mark and scheme in _SHARED_SCHEMES:
        return _open_shared(f"{scheme}://{rest}")
    if scheme.startswith(fsspec_files.PREFIX):
        return fsspec_files.open_with_fsspec(uri.removeprefix(fsspec_files.PREFIX))
    if scheme in fsspec_files.HDFS and fsspec_files.has_hdfs():
        return fsspec_files.open_with_fsspec(uri)
    try:
        return _as_tuple(fs.FileSystem.from_uri(uri))
    except OSError as error:
        if any(name in str(error) for name in _NO_LIBHDFS):
            raise ValueError(
                f"neither libhdfs nor hdfs-native is installed; {fsspec_files.hdfs_hint()}"
            ) from error
        raise
    except ValueError as error:  # pyarrow does not know the scheme
        if importlib.util.find_spec("fsspec") is None:
            raise ValueError(
                f"{error}; for file systems that pyarrow does not support, install fsspec and its driver for {scheme}"
            ) from error
        import fsspec

        if scheme not in {*fsspec.available_protocols(), *fsspec.registry}:
            raise ValueError(f"no file system for '{scheme}://' in pyarrow or fsspec") from error
        return fsspec_files.open_with_fsspec(uri)


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
    if fsspec_files.is_of_fsspec(file_system):
        return fsspec_files.is_object_store(file_system)
    return file_system.type_name in _OBJECT_STORES
