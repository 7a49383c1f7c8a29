"""The format `avro` of SQL tables: Avro container files."""

from __future__ import annotations

from functools import partial
from typing import Final

from penstock.errors import ConfigurationError
from penstock.formats.avro.frames import AvroFrames, AvroPart, merge_avro
from penstock.formats.frames.compression import codec_of
from penstock.formats.frames.maps import map_columns, map_without_string_keys
from penstock.sql.connector.formats import FileFormatFactory, FileWriting, FormatContext
from penstock.sql.connector.options import flag, text
from penstock.sql.types import DataType, LocalZonedTimestampType, TimestampType

_CODECS: Final = {"null": "uncompressed", "snappy": "snappy", "deflate": "deflate"}


class AvroFormatFactory(FileFormatFactory):
    """Avro container files."""

    identifier = "avro"
    options = (
        text("codec", "Compression: null, snappy or deflate.", default="snappy"),
        text("encoding", "Encoding of records.", default="binary", choices=("binary",)),
        flag(
            "timestamp_mapping.legacy",
            "Use the logical types of older versions of Flink.",
            default=True,
            no_effect="timestamps use the matching Avro logical types",
        ),
    )

    def check(self, context: FormatContext) -> None:
        """Reject unknown codecs."""
        _codec(context)

    def file_reader(self, context: FormatContext) -> AvroFrames:
        """Return how files are read."""
        return AvroFrames(list(context.columns), list(context.columns.values()))

    def file_writer(self, context: FormatContext) -> FileWriting:
        """Return how files are written."""
        codec = _codec(context)
        for name, kind in context.columns.items():
            if isinstance(kind, TimestampType | LocalZonedTimestampType) and kind.precision > 6:
                raise _unsupported(context, name, kind, "declare a precision of at most 6")
            keyed = map_without_string_keys(kind)
            if keyed is not None:
                hint = "Avro only supports STRING keys in maps: declare STRING and use CAST"
                raise _unsupported(context, name, keyed, hint)
        create = partial(AvroPart, codec, map_columns(context.columns))
        return FileWriting(create, partial(merge_avro, codec))


def _codec(context: FormatContext) -> str:
    return codec_of(context, "avro", "codec", _CODECS)


def _unsupported(
    context: FormatContext, column: str, kind: DataType, hint: str
) -> ConfigurationError:
    return ConfigurationError(
        f"table {context.table}: Avro cannot represent the {kind} of column '{column}'", hint=hint
    )
