"""The formats `parquet` and `orc` of SQL tables."""

from __future__ import annotations

from functools import partial
from typing import Final

from penstock.formats.columnar.frames import OrcFrames, ParquetFrames
from penstock.formats.columnar.parts import OrcPart, ParquetPart, merge_orc, merge_parquet
from penstock.formats.frames.compression import codec_of
from penstock.formats.frames.maps import map_columns
from penstock.sql.connector.formats import FileFormatFactory, FileWriting, FormatContext
from penstock.sql.connector.options import Option, flag, text

_AS_DECLARED: Final = "timestamps are written as declared, without a time zone"
_PARQUET_CODECS: Final = {
    "uncompressed": "none",
    **{each: each for each in ("snappy", "gzip", "zstd", "lz4", "lz4_raw", "brotli")},
}
_ORC_CODECS: Final = {
    "none": "uncompressed",
    **{each: each for each in ("zlib", "snappy", "lz4", "zstd")},
}


def _of_java(*names: str) -> tuple[Option, ...]:
    """Return options of the Java library that writes these files in Flink."""
    return tuple(
        text(
            name,
            "Options of the Java library that writes these files in Flink.",
            no_effect="Arrow determines this",
        )
        for name in names
    )


class ParquetFormatFactory(FileFormatFactory):
    """Parquet files."""

    identifier = "parquet"
    options = (
        text("compression", f"Compression: {', '.join(_PARQUET_CODECS)}.", default="snappy"),
        flag("utc-timezone", "Write timestamps in UTC.", no_effect=_AS_DECLARED),
        flag("write.int64.timestamp", "Write timestamps as INT64.", no_effect=_AS_DECLARED),
        text("timestamp.time.unit", "Unit of timestamps.", default="micros", no_effect=_AS_DECLARED),
        *_of_java(
            "batch-size", "block.size", "bloom.filter.enabled", "bloom.filter.max.bytes",
            "column.index.truncate.length", "compression.codec.zstd.level", "dictionary.page.size",
            "enable.dictionary", "memory.min.chunk.size", "memory.pool.ratio", "page.row.count.limit",
            "page.size", "page.size.row.check.max", "page.size.row.check.min",
            "page.write-checksum.enabled", "statistics.truncate.length", "summary.metadata.level",
            "validation", "writer.max-padding", "writer.version",
        ),
    )  # fmt: skip

    def check(self, context: FormatContext) -> None:
        """Reject unknown codecs."""
        _parquet_codec(context)

    def file_reader(self, context: FormatContext) -> ParquetFrames:
        """Return how files are read."""
        return ParquetFrames(list(context.columns), list(context.columns.values()))

    def file_writer(self, context: FormatContext) -> FileWriting:
        """Return how files are written."""
        codec = _parquet_codec(context)
        create = partial(ParquetPart, codec, map_columns(context.columns))
        return FileWriting(create, partial(merge_parquet, codec))


class OrcFormatFactory(FileFormatFactory):
    """ORC files."""

    identifier = "orc"
    options = (
        text("compress", f"Compression: {', '.join(_ORC_CODECS)}.", default="none"),
        *_of_java(
            "block.padding", "block.padding.tolerance", "bloom.filter.columns", "bloom.filter.fpp",
            "buffer.size.enforce", "compress.size", "compression.strategy", "create.index",
            "dictionary.key.threshold", "direct.encoding.columns", "encoding.strategy",
            "memory.pool", "row.index.stride", "stripe.row.count", "stripe.size", "write.format",
        ),
    )  # fmt: skip

    def check(self, context: FormatContext) -> None:
        """Reject unknown codecs."""
        _orc_codec(context)

    def file_reader(self, context: FormatContext) -> OrcFrames:
        """Return how files are read."""
        return OrcFrames(list(context.columns), list(context.columns.values()))

    def file_writer(self, context: FormatContext) -> FileWriting:
        """Return how files are written."""
        codec = _orc_codec(context)
        create = partial(OrcPart, codec, map_columns(context.columns))
        return FileWriting(create, partial(merge_orc, codec))


def _parquet_codec(context: FormatContext) -> str:
    return codec_of(context, "parquet", "compression", _PARQUET_CODECS)


def _orc_codec(context: FormatContext) -> str:
    return codec_of(context, "orc", "compress", _ORC_CODECS)
