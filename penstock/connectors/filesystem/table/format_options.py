"""Options of the bulk file formats: compression, and further options of Flink."""

from __future__ import annotations

from typing import Any, Final

from penstock.errors import ConfigurationError
from penstock.sql.connector.options import (
    Option,
    checked,
    flag,
    text,
)
from penstock.sql.connector.providers import TableContext

_AS_THEY_ARE: Final = "timestamps are written as declared, without a time zone"
_BY_ARROW: Final = "Arrow determines this"


def _of_java(*names: str) -> tuple[Option, ...]:
    """Return options of the Java library that writes these files in Flink."""
    return tuple(text(name, no_effect=_BY_ARROW) for name in names)


OPTIONS: Final[dict[str, tuple[Option, ...]]] = {
    "parquet": (
        text("compression", "snappy"),
        flag("utc-timezone", no_effect=_AS_THEY_ARE),
        flag("write.int64.timestamp", no_effect=_AS_THEY_ARE),
        text("timestamp.time.unit", "micros", no_effect=_AS_THEY_ARE),
        *_of_java(
            "batch-size", "block.size", "bloom.filter.enabled", "bloom.filter.max.bytes",
            "column.index.truncate.length", "compression.codec.zstd.level", "dictionary.page.size",
            "enable.dictionary", "memory.min.chunk.size", "memory.pool.ratio", "page.row.count.limit",
            "page.size", "page.size.row.check.max", "page.size.row.check.min",
            "page.write-checksum.enabled", "statistics.truncate.length", "summary.metadata.level",
            "validation", "writer.max-padding", "writer.version",
        ),
    ),
    "orc": (
        text("compress", "none"),
        *_of_java(
            "block.padding", "block.padding.tolerance", "bloom.filter.columns", "bloom.filter.fpp",
            "buffer.size.enforce", "compress.size", "compression.strategy", "create.index",
            "dictionary.key.threshold", "direct.encoding.columns", "encoding.strategy",
            "memory.pool", "row.index.stride", "stripe.row.count", "stripe.size", "write.format",
        ),
    ),
    "avro": (
        text("codec", "snappy"),
        text("encoding", "binary", choices=("binary",)),
        flag(
            "timestamp_mapping.legacy",
            default=True,
            no_effect="timestamps use the matching Avro logical types",
        ),
    ),
}  # fmt: skip
# The compression option of each format, and the codec names that the libraries use.
_CODECS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "parquet": (
        "compression",
        {
            "uncompressed": "none",
            **{each: each for each in ("snappy", "gzip", "zstd", "lz4", "lz4_raw", "brotli")},
        },
    ),
    "orc": (
        "compress",
        {"none": "uncompressed", **{each: each for each in ("zlib", "snappy", "lz4", "zstd")}},
    ),
    "avro": ("codec", {"null": "uncompressed", "snappy": "snappy", "deflate": "deflate"}),
}


def compression_of(kind: str, context: TableContext) -> str:
    """Return how files of a format are compressed, as its library calls it; refuse options that there are not."""
    table = f"{context.table.path}, format {kind}"
    prefix = f"{kind}."
    own = {
        key.removeprefix(prefix): value
        for key, value in context.options.items()
        if key.startswith(prefix)
    }
    option, codecs = _CODECS[kind]
    given: Any = checked(own, OPTIONS[kind], table)[option]
    found = codecs.get(given.lower())
    if found is None:
        raise ConfigurationError(
            f"table {table}: invalid value '{given}' for option '{option}'",
            hint=f"valid values are {', '.join(codecs)}",
        )
    return found
