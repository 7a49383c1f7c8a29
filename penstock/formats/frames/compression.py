"""How files are compressed: by the values of an option, which libraries name differently."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigurationError
from penstock.sql.connector.formats import FormatContext


def codec_of(
    context: FormatContext, format_name: str, option: str, codecs: Mapping[str, str]
) -> str:
    """Return the library's name of the codec that an option names; `codecs`: values of the option -> these names."""
    given: str = context.options[option]
    found = codecs.get(given.lower())
    if found is None:
        raise ConfigurationError(
            f"table {context.table}, format {format_name}: invalid value '{given}' for option '{option}'",
            hint=f"valid values are {', '.join(codecs)}",
        )
    return found
