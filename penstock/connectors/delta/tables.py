"""Opens Delta tables, for sources and sinks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.dependencies.extras import optional_module
from penstock.errors import ArgumentError, ArgumentTypeError, PenstockError

if TYPE_CHECKING:
    import pyarrow as pa


def deltalake(part: str = "") -> Any:
    """Return the library, or a module of it."""
    name = f"deltalake.{part}" if part else "deltalake"
    return optional_module(name, extra="delta", needed_by="a Delta Lake source or sink")


def check_location(table_uri: object, storage_options: object) -> tuple[str, dict[str, str] | None]:
    """Check a table's location and storage options."""
    if not isinstance(table_uri, str) or not table_uri.strip():
        raise ArgumentTypeError(
            "table_uri must be a path or a URI",
            detail=f"table_uri={table_uri!r}",
            hint='use for example "/data/orders" or "s3://bucket/orders"',
        )
    if storage_options is None:
        return table_uri, None
    if not isinstance(storage_options, Mapping):
        raise ArgumentTypeError(
            "storage_options must be a dict of str to str",
            detail=f"storage_options={storage_options!r}",
        )
    return table_uri, {str(name): str(value) for name, value in storage_options.items()}


def is_table(uri: str, options: dict[str, str] | None) -> bool:
    """Whether a Delta table exists."""
    try:
        return bool(deltalake().DeltaTable.is_deltatable(uri, storage_options=options))
    except OSError as error:
        raise _unreachable(uri, error) from error


def open_table(uri: str, options: dict[str, str] | None, version: int | None = None) -> Any:
    """Open a Delta table, at the latest or at a given version."""
    library = deltalake()
    try:
        return library.DeltaTable(uri, version=version, storage_options=options)
    except deltalake("exceptions").TableNotFoundError as error:
        raise ArgumentError(
            f"the Delta table at {uri} does not exist",
            detail=str(error),
            hint="check the path; a sink with a row type creates its table",
        ) from error
    except (deltalake("exceptions").DeltaError, OSError) as error:
        raise _unreachable(uri, error) from error


def _unreachable(uri: str, error: Exception) -> PenstockError:
    return PenstockError(
        f"cannot open the Delta table at {uri}",
        detail=f"{type(error).__name__}: {error}",
        hint="check the path, the storage options and the credentials",
    )


def arrow_schema_of(table: Any) -> pa.Schema:
    """Return a Delta table's schema as a pyarrow schema."""
    import pyarrow as pa

    return pa.schema(table.schema().to_arrow())
