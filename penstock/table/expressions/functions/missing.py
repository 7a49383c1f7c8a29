"""Functions of Flink that are not there, by name, with the reason."""

from __future__ import annotations

_VARIANT = "there are no columns of type VARIANT; JSON_VALUE and JSON_QUERY read JSON text"
_OBJECT = "there are no structured types; use ROW"
_MODEL = "there are no models"

MISSING: dict[str, str] = {
    **dict.fromkeys(("PARSE_JSON", "TRY_PARSE_JSON"), _VARIANT),
    **dict.fromkeys(("OBJECT_OF", "OBJECT_UPDATE"), _OBJECT),
    **dict.fromkeys(("ML_PREDICT",), _MODEL),
    "TO_CHANGELOG": "views of changelogs as rows are not there",
    "FROM_CHANGELOG": "views of rows as changelogs are not there",
}
