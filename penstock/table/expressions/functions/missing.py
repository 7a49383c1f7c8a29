"""Functions of Flink that are not there, by name, with the reason."""

from __future__ import annotations

_VARIANT = "there are no columns of type VARIANT; JSON_VALUE and JSON_QUERY read JSON text"
_BITMAP = "there are no columns of type BITMAP"
_OBJECT = "there are no structured types; use ROW"
_MODEL = "there are no models"

MISSING: dict[str, str] = {
    **dict.fromkeys(("PARSE_JSON", "TRY_PARSE_JSON"), _VARIANT),
    **dict.fromkeys(("OBJECT_OF", "OBJECT_UPDATE"), _OBJECT),
    **dict.fromkeys(("ML_PREDICT",), _MODEL),
    **dict.fromkeys(
        (
            "BITMAP_AND",
            "BITMAP_ANDNOT",
            "BITMAP_AND_AGG",
            "BITMAP_AND_CARDINALITY_AGG",
            "BITMAP_BUILD",
            "BITMAP_BUILD_AGG",
            "BITMAP_BUILD_CARDINALITY_AGG",
            "BITMAP_CARDINALITY",
            "BITMAP_FROM_BYTES",
            "BITMAP_OR",
            "BITMAP_OR_AGG",
            "BITMAP_OR_CARDINALITY_AGG",
            "BITMAP_TO_ARRAY",
            "BITMAP_TO_BYTES",
            "BITMAP_TO_STRING",
            "BITMAP_XOR",
            "BITMAP_XOR_AGG",
            "BITMAP_XOR_CARDINALITY_AGG",
        ),
        _BITMAP,
    ),
    "TO_CHANGELOG": "views of changelogs as rows are not there",
    "FROM_CHANGELOG": "views of rows as changelogs are not there",
}
