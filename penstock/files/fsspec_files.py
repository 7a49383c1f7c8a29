"""File systems that fsspec opens, as file systems of pyarrow: HDFS with the package hdfs-native, WebHDFS, SFTP and others.

fsspec leaves open what a rename does if the target exists, and whether it tells that it did nothing. `rename_over` is a rename that replaces the
target in one step, where there is one.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyarrow import fs

from penstock.dependencies.distribution import install_command

PREFIX: Final = "fsspec+"
#: Opened by the package hdfs-native, which needs neither Java nor libhdfs
HDFS: Final = frozenset({"hdfs", "viewfs"})
_NATIVE: Final = "hdfs_native"
_WEB: Final = "webhdfs"
_OBJECT_STORES: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
# In which HDFS clients tell when a file was changed, in milliseconds
_MILLISECONDS: Final = ("modification_time", "modificationTime")

Rename = Callable[[str, str], None]


class _Handler(fs.FSSpecHandler):  # type: ignore[misc]  # pyarrow has no types
    """Tells also when a file of HDFS was changed."""

    @staticmethod
    def _create_file_info(path: str, info: Mapping[str, Any]) -> Any:
        changed = next((info[name] for name in _MILLISECONDS if name in info), None)
        known = info if changed is None else {**info, "mtime": changed / 1000}
        return fs.FSSpecHandler._create_file_info(path, known)  # noqa: SLF001 - no other way


def has_hdfs() -> bool:
    """Whether hdfs:// can be opened without libhdfs.

    >>> has_hdfs() in (True, False)
    True
    """
    return all(importlib.util.find_spec(name) is not None for name in ("fsspec", _NATIVE))


def hdfs_hint() -> str:
    """Return what to install for hdfs://."""
    return f"install hdfs-native: {install_command('hdfs')}"


def open_with_fsspec(uri: str) -> tuple[Any, str]:
    """Return the file system of a URI, and the path on it. Raises ValueError if fsspec lacks a package for it."""
    import fsspec

    # Without fsspec's listing cache: writes and deletes of other processes must be seen, above all for leases.
    try:
        try:
            found, path = fsspec.core.url_to_fs(uri, use_listings_cache=False)
        except TypeError:  # it does not take this option
            found, path = fsspec.core.url_to_fs(uri)
            found.dircache.use_listings_cache = False
    except ImportError as error:
        raise ValueError(f"fsspec cannot open '{uri}': {error}") from error
    return fs.PyFileSystem(_Handler(found)), path


def is_of_fsspec(file_system: object) -> bool:
    """Whether fsspec has opened a pyarrow.fs.FileSystem."""
    return _of(file_system) is not None


def is_object_store(file_system: object) -> bool:
    """Whether a pyarrow.fs.FileSystem that fsspec has opened is an object store."""
    names = _of(file_system).protocol
    return not _OBJECT_STORES.isdisjoint([names] if isinstance(names, str) else names)


def exclusive_write(file_system: object) -> Callable[[str, bytes], bool] | None:
    """Return a function that writes an object unless it exists and returns whether it did; None if there is none.

    The file systems of fsspec for object stores have it since 2025.
    """
    if not is_of_fsspec(file_system) or not is_object_store(file_system):
        return None
    found = _of(file_system)
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


def rename_over(file_system: object) -> Rename | None:
    """Return a function that moves a file over another one in one step; None if the file system has none."""
    found = _of(file_system)
    if found is None:
        return None
    if type(found).__module__.partition(".")[0] == _NATIVE:
        return lambda source, target: found.mv(source, target, overwrite=True)
    if _WEB not in found.protocol:
        return None

    def rename(source: str, target: str) -> None:
        found._call(  # noqa: SLF001 - `mv` takes no options
            "RENAME", method="put", path=source, destination=target, renameoptions="OVERWRITE"
        )

    return rename


def _of(file_system: object) -> Any:
    return getattr(getattr(file_system, "handler", None), "fs", None)
