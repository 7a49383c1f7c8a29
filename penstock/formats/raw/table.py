"""The format `raw` of SQL tables: one value per message."""

from __future__ import annotations

from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.formats.raw.messages import RawDeserializationSchema, RawSerializationSchema
from penstock.sql.connector.formats import FormatContext, MessageFormatFactory
from penstock.sql.connector.options import text


class RawFormatFactory(MessageFormatFactory):
    """The bytes of the only column."""

    identifier = "raw"
    options = (
        text("charset", "Charset of texts.", default="UTF-8"),
        text(
            "endianness",
            "Order of the bytes of numbers: big-endian or little-endian.",
            default="big-endian",
        ),
    )

    def deserializer(self, context: FormatContext) -> DeserializationSchema:
        """Return how the value is read."""
        return RawDeserializationSchema(context.row_type, **_settings(context))

    def serializer(self, context: FormatContext) -> SerializationSchema:
        """Return how the value is written."""
        return RawSerializationSchema(context.row_type, **_settings(context))


def _settings(context: FormatContext) -> dict[str, str]:
    return {each: context.options[each] for each in ("charset", "endianness")}
