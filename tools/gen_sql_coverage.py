"""Writes docs/reference/sql-coverage.md: the built-in functions and types of Flink SQL, which of them are there, and why others are not.

Run it from anywhere: `python tools/gen_sql_coverage.py`. The names are those of Flink's documentation, by its chapters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.runtime.columnar.expressions import compiled_functions
from penstock.sql.expr.casts import can_cast
from penstock.sql.expr.functions import is_aggregate
from penstock.sql.expr.functions.definitions import ALIASES, DEFINITIONS
from penstock.sql.expr.functions.missing import MISSING
from penstock.sql.types import DataType
from penstock.table import DataTypes

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "sql-coverage.md"

CHAPTERS: dict[str, str] = {
    "Comparison": "= | <> | > | >= | < | <= | IS NULL | IS NOT NULL | IS DISTINCT FROM | IS NOT DISTINCT FROM | BETWEEN | NOT BETWEEN | LIKE | NOT LIKE | "
    "SIMILAR TO | NOT SIMILAR TO | IN | NOT IN",
    "Logic": "OR | AND | NOT | IS FALSE | IS NOT FALSE | IS TRUE | IS NOT TRUE | IS UNKNOWN | IS NOT UNKNOWN",
    "Arithmetic": "POSITIVE | NEGATE | + | - | * | / | % | MOD | POWER | ABS | SQRT | LN | LOG10 | LOG2 | LOG | EXP | CEIL | CEILING | FLOOR | SIN | SINH | COS | "
    "TAN | TANH | COT | ASIN | ACOS | ATAN | ATAN2 | COSH | DEGREES | RADIANS | SIGN | ROUND | PI | E | RAND | RAND_INTEGER | UUID | BIN | HEX | UNHEX | TRUNCATE",
    "Strings": "|| | CHAR_LENGTH | CHARACTER_LENGTH | UPPER | UCASE | LOWER | LCASE | POSITION | TRIM | LTRIM | RTRIM | BTRIM | REPEAT | REGEXP | REGEXP_REPLACE | "
    "REGEXP_EXTRACT | REGEXP_EXTRACT_ALL | REGEXP_COUNT | REGEXP_INSTR | REGEXP_SUBSTR | OVERLAY | SUBSTRING | SUBSTR | REPLACE | TRANSLATE | INITCAP | CONCAT | "
    "CONCAT_WS | LPAD | RPAD | FROM_BASE64 | TO_BASE64 | ASCII | CHR | DECODE | ENCODE | INSTR | LEFT | RIGHT | LOCATE | PARSE_URL | URL_ENCODE | URL_DECODE | "
    "REVERSE | SPLIT_INDEX | SPLIT | STR_TO_MAP | STARTSWITH | ENDSWITH | ELT | PRINTF | INET_ATON | INET_NTOA | IS_ALPHA | IS_DIGIT | IS_DECIMAL",
    "Dates and times": "LOCALTIME | LOCALTIMESTAMP | CURRENT_TIME | CURRENT_DATE | CURRENT_TIMESTAMP | NOW | CURRENT_ROW_TIMESTAMP | EXTRACT | YEAR | QUARTER | MONTH | "
    "WEEK | DAYOFYEAR | DAYOFMONTH | DAYOFWEEK | HOUR | MINUTE | SECOND | OVERLAPS | DATE_FORMAT | TIMESTAMPADD | TIMESTAMPDIFF | CONVERT_TZ | FROM_UNIXTIME | "
    "UNIX_TIMESTAMP | TO_DATE | TO_TIMESTAMP_LTZ | TO_TIMESTAMP | CURRENT_WATERMARK | SOURCE_WATERMARK | PROCTIME",
    "Conditions": "CASE | NULLIF | COALESCE | IF | IFNULL | GREATEST | LEAST",
    "Conversion": "CAST | TRY_CAST | TYPEOF",
    "Collections": "CARDINALITY | ELEMENT | ARRAY_APPEND | ARRAY_CONTAINS | ARRAY_DISTINCT | ARRAY_POSITION | ARRAY_PREPEND | ARRAY_REMOVE | ARRAY_REVERSE | ARRAY_SLICE | "
    "ARRAY_SORT | ARRAY_UNION | ARRAY_CONCAT | ARRAY_EXCEPT | ARRAY_INTERSECT | ARRAY_MAX | ARRAY_MIN | ARRAY_JOIN | MAP_KEYS | MAP_VALUES | MAP_ENTRIES | "
    "MAP_FROM_ARRAYS | MAP_UNION",
    "JSON": "IS JSON | IS NOT JSON | JSON_EXISTS | JSON_STRING | JSON_VALUE | JSON_QUERY | JSON_OBJECT | JSON_ARRAY | JSON | JSON_QUOTE | JSON_UNQUOTE",
    "Variants": "PARSE_JSON | TRY_PARSE_JSON",
    "Construction and access": "ROW | ARRAY | MAP | ITEM | FIELD | OBJECT_OF | OBJECT_UPDATE",
    "Hashes": "MD5 | SHA1 | SHA224 | SHA256 | SHA384 | SHA512 | SHA2",
    "Bitmaps": "BITMAP_AND | BITMAP_ANDNOT | BITMAP_BUILD | BITMAP_CARDINALITY | BITMAP_FROM_BYTES | BITMAP_OR | BITMAP_TO_ARRAY | BITMAP_TO_BYTES | BITMAP_TO_STRING | "
    "BITMAP_XOR | BITMAP_AND_AGG | BITMAP_AND_CARDINALITY_AGG | BITMAP_BUILD_AGG | BITMAP_BUILD_CARDINALITY_AGG | BITMAP_OR_AGG | BITMAP_OR_CARDINALITY_AGG | "
    "BITMAP_XOR_AGG | BITMAP_XOR_CARDINALITY_AGG",
    "Models and changelogs": "ML_PREDICT | TO_CHANGELOG | FROM_CHANGELOG",
    "Session": "CURRENT_DATABASE | CURRENT_CATALOG",
    "Aggregates": "COUNT | AVG | SUM | MAX | MIN | STDDEV_POP | STDDEV_SAMP | VAR_POP | VAR_SAMP | VARIANCE | COLLECT | FIRST_VALUE | LAST_VALUE | LISTAGG | ARRAY_AGG | "
    "PERCENTILE | APPROX_COUNT_DISTINCT | JSON_OBJECTAGG | JSON_ARRAYAGG | GROUPING | GROUPING_ID",
    "Ranking and neighbours": "RANK | DENSE_RANK | ROW_NUMBER | LEAD | LAG | NTILE | CUME_DIST | PERCENT_RANK",
}
# Words of the grammar that plans give another form: they are there if that form is.
_REWRITTEN = {
    "POSITIVE",
    "BETWEEN",
    "NOT BETWEEN",
    "NOT LIKE",
    "NOT SIMILAR TO",
    "NOT IN",
    "IS NOT JSON",
    "TYPEOF",
    "SOURCE_WATERMARK",
    "CURRENT_CATALOG",
    "CURRENT_DATABASE",
    "IF",
    "IFNULL",
    "NULLIF",
    "MOD",
    *("YEAR", "QUARTER", "MONTH", "WEEK", "DAYOFYEAR", "DAYOFMONTH", "DAYOFWEEK"),
    *("HOUR", "MINUTE", "SECOND"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A function: there, or missing for a reason."""

    name: str
    there: bool
    reason: str = ""


def entries(chapter: str) -> Iterator[Entry]:
    """Look up all functions of a chapter."""
    names = CHAPTERS[chapter].replace("|| |", "CONCAT-BARS |")
    for each in names.split(" | "):
        name = "||" if each == "CONCAT-BARS" else each
        yield Entry(name, is_there(name), MISSING.get(name, ""))


def is_there(name: str) -> bool:
    """Whether a function is typed and can be run."""
    if name in {"CAST", "TRY_CAST"}:
        return name in compiled_functions()
    if name in MISSING:
        return False
    if name in {"CURRENT_CATALOG", "CURRENT_DATABASE"}:  # constants of a plan
        return True
    canonical = ALIASES.get(name, name)
    if canonical in DEFINITIONS:
        return canonical in compiled_functions() or canonical in _REWRITTEN
    return is_aggregate(name)


TYPES: tuple[tuple[str, DataType], ...] = (
    ("STRING", DataTypes.STRING()),
    ("BYTES", DataTypes.BYTES()),
    ("BOOLEAN", DataTypes.BOOLEAN()),
    ("DECIMAL", DataTypes.DECIMAL(10, 2)),
    ("TINYINT", DataTypes.TINYINT()),
    ("SMALLINT", DataTypes.SMALLINT()),
    ("INT", DataTypes.INT()),
    ("BIGINT", DataTypes.BIGINT()),
    ("FLOAT", DataTypes.FLOAT()),
    ("DOUBLE", DataTypes.DOUBLE()),
    ("DATE", DataTypes.DATE()),
    ("TIME", DataTypes.TIME()),
    ("TIMESTAMP", DataTypes.TIMESTAMP(3)),
    ("TIMESTAMP_LTZ", DataTypes.TIMESTAMP_LTZ(3)),
    ("INTERVAL DAY", DataTypes.INTERVAL(DataTypes.DAY())),
    ("INTERVAL MONTH", DataTypes.INTERVAL(DataTypes.MONTH())),
    ("ARRAY", DataTypes.ARRAY(DataTypes.INT())),
    ("MULTISET", DataTypes.MULTISET(DataTypes.INT())),
    ("MAP", DataTypes.MAP(DataTypes.STRING(), DataTypes.INT())),
    ("ROW", DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())])),
    ("BITMAP", DataTypes.BITMAP()),
)


def _escaped(name: str) -> str:
    return f"`{name}`".replace("|", "\\|")


def _functions() -> Iterator[str]:
    whole = [entry for chapter in CHAPTERS for entry in entries(chapter)]
    present = sum(entry.there for entry in whole)
    yield f"{present} of {len(whole)} functions and operators are supported. Others are rejected by name when a query is planned."
    yield ""
    yield "| chapter | there | missing |"
    yield "|---|---|---|"
    for chapter in CHAPTERS:
        found = list(entries(chapter))
        there = " ".join(_escaped(entry.name) for entry in found if entry.there)
        missing = " ".join(_escaped(entry.name) for entry in found if not entry.there)
        yield f"| {chapter} | {there} | {missing} |"
    yield ""
    yield "Why they are missing:"
    yield ""
    reasons: dict[str, list[str]] = {}
    for entry in whole:
        if not entry.there:
            reasons.setdefault(entry.reason, []).append(entry.name)
    for reason, names in reasons.items():
        yield f"- {', '.join(map(_escaped, names))}: {reason}"


def _casts() -> Iterator[str]:
    yield "| from \\ to | " + " | ".join(name for name, _ in TYPES) + " |"
    yield "|---" * (len(TYPES) + 1) + "|"
    for name, source in TYPES:
        cells = ("x" if can_cast(source, target) else "" for _, target in TYPES)
        yield f"| {name} | " + " | ".join(cells) + " |"


def page() -> str:
    """Return the text of the page."""
    lines = [
        "<!-- written by tools/gen_sql_coverage.py -->",
        "",
        "# SQL: what is there",
        "",
        "The functions of Flink SQL 2.3, by the chapters of its documentation. Their answers are tested against real Flink: see `tests/unit/sql/expr/flink_expressions.txt`.",
        "",
        "## Functions",
        "",
        *_functions(),
        "",
        "## Casts",
        "",
        "`CAST` between the types marked here; a value that cannot be converted fails the job, and `TRY_CAST` gives NULL instead.",
        "",
        *_casts(),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
