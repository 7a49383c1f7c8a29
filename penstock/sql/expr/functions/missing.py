"""Functions of Flink that are not supported, by name, with the reason."""

from __future__ import annotations

_VARIANT = "type VARIANT is not supported; JSON_VALUE and JSON_QUERY read JSON text"
_OBJECT = "structured types are not supported; use ROW"
_MODEL = "models are not supported"

MISSING: dict[str, str] = {
    **dict.fromkeys(("PARSE_JSON", "TRY_PARSE_JSON"), _VARIANT),
    **dict.fromkeys(("OBJECT_OF", "OBJECT_UPDATE"), _OBJECT),
    **dict.fromkeys(("ML_PREDICT",), _MODEL),
    "TO_CHANGELOG": "converting a changelog into rows is not supported",
    "FROM_CHANGELOG": "converting rows into a changelog is not supported",
}
