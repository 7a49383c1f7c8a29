"""File systems by URI: those that pyarrow knows, and those that fsspec has for other schemes."""

from __future__ import annotations

import importlib.util
from typing import Any


def open_file_system(uri: str) -> tuple[Any, str]:
    """Return a pyarrow.fs.FileSystem and the path on it that a URI means.

    S3, GCS, Azure and HDFS are pyarrow's own. Any other scheme (`sftp://`, `memory://`, `dbfs://`) is fsspec's, if that
    is installed; `fsspec+s3://` asks for fsspec's file system where pyarrow has one too. Raises what pyarrow or fsspec
    raise; OSError or ValueError as a rule.
    """
    from pyarrow import fs

    try:
        return _as_tuple(fs.FileSystem.from_uri(uri))
    except ValueError as error:  # pyarrow does not know the scheme
        scheme = uri.partition("://")[0]
        if importlib.util.find_spec("fsspec") is None:
            raise ValueError(
                f"{error}; for file systems that pyarrow has not, install fsspec and what it needs for {scheme}"
            ) from error
        import fsspec

        if scheme not in fsspec.available_protocols():
            raise
        found, path = fsspec.core.url_to_fs(uri)
        return fs.PyFileSystem(fs.FSSpecHandler(found)), path


def _as_tuple(pair: Any) -> tuple[Any, str]:
    file_system, path = pair
    return file_system, path
