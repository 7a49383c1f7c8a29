"""Functions of text and bytes."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.sql import types as t
from penstock.sql.expr import typing as ty
from penstock.sql.expr.functions.definitions import (
    ANY,
    BIGINT,
    BINARY,
    INTEGER,
    TEXT,
    MessageWording,
    common_operands,
    define,
    kinds,
    one_of,
    register,
    same_as,
    wrong_count,
    wrong_operand,
)
from penstock.sql.expr.nodes import (
    Call,
    Literal,
    Rex,
    Symbol,
)


def _varying(operands: Sequence[Rex]) -> t.DataType:
    """Return text as long as the first operand at most."""
    given = operands[0].type
    return t.VarCharType(given.length) if isinstance(given, t.CharType) else given


for _name, _aliases in (("UPPER", ("UCASE",)), ("LOWER", ("LCASE",)), ("INITCAP", ())):
    define(_name, TEXT, returns=same_as(0), aliases=_aliases)
define("CHAR_LENGTH", TEXT, returns=ty.INT, aliases=("CHARACTER_LENGTH",))
define("ASCII", TEXT, returns=ty.INT)
define("CHR", BIGINT, returns=ty.STRING, nullable=True)
define("REVERSE", TEXT, returns=ty.STRING, nullable=True)
define("REPEAT", TEXT, INTEGER, returns=ty.STRING)
define("REPLACE", TEXT, TEXT, TEXT, returns=ty.STRING)
define("TRANSLATE", TEXT, TEXT, TEXT, returns=ty.STRING, aliases=("TRANSLATE3",))
define("LPAD", TEXT, INTEGER, TEXT, returns=ty.STRING, nullable=True)
define("RPAD", TEXT, INTEGER, TEXT, returns=ty.STRING, nullable=True)
define("LEFT", TEXT, INTEGER, returns=_varying, nullable=True)
define("RIGHT", TEXT, INTEGER, returns=_varying, nullable=True)
define(
    "SUBSTRING",
    TEXT,
    INTEGER,
    INTEGER,
    optional=1,
    returns=_varying,
    nullable=True,
    aliases=("SUBSTR", "MID"),
)
define("POSITION", TEXT, TEXT, returns=ty.INT)
define("LOCATE", TEXT, TEXT, INTEGER, optional=1, returns=ty.INT)
define("INSTR", TEXT, TEXT, INTEGER, INTEGER, optional=2, returns=ty.INT)
define("SPLIT_INDEX", TEXT, one_of(TEXT, INTEGER), INTEGER, returns=ty.STRING, nullable=True)
define("SPLIT", TEXT, TEXT, returns=t.ArrayType(ty.STRING))
define("STARTSWITH", one_of(TEXT, BINARY), one_of(TEXT, BINARY), returns=ty.BOOLEAN)
define("ENDSWITH", one_of(TEXT, BINARY), one_of(TEXT, BINARY), returns=ty.BOOLEAN)
define("CONCAT", TEXT, returns=ty.STRING, repeated=True)
define("CONCAT_WS", TEXT, TEXT, returns=ty.STRING, repeated=True)
define("BTRIM", TEXT, TEXT, optional=1, returns=ty.STRING)
define("LTRIM", TEXT, TEXT, optional=1, returns=_varying)
define("RTRIM", TEXT, TEXT, optional=1, returns=_varying)
define("REGEXP", TEXT, TEXT, returns=ty.BOOLEAN)
define("REGEXP_REPLACE", TEXT, TEXT, TEXT, returns=ty.STRING)
define("REGEXP_EXTRACT", TEXT, TEXT, INTEGER, optional=1, returns=ty.STRING, nullable=True)
define(
    "REGEXP_EXTRACT_ALL",
    TEXT,
    TEXT,
    INTEGER,
    optional=1,
    returns=t.ArrayType(ty.STRING),
    nullable=True,
)
define("REGEXP_COUNT", TEXT, TEXT, returns=ty.INT, nullable=True)
define("REGEXP_INSTR", TEXT, TEXT, returns=ty.INT, nullable=True)
define("REGEXP_SUBSTR", TEXT, TEXT, returns=ty.STRING, nullable=True)
define(
    "STR_TO_MAP",
    TEXT,
    TEXT,
    TEXT,
    optional=2,
    returns=t.MapType(ty.STRING, ty.STRING),
    nullable=True,
)
define("PARSE_URL", TEXT, TEXT, TEXT, optional=1, returns=ty.STRING, nullable=True)
define("URL_ENCODE", TEXT, returns=ty.STRING, nullable=True)
define("URL_DECODE", TEXT, returns=ty.STRING, nullable=True)
define("TO_BASE64", one_of(TEXT, BINARY), returns=ty.STRING)
define("FROM_BASE64", TEXT, returns=ty.STRING)
define("ENCODE", TEXT, TEXT, returns=ty.BYTES)
define("DECODE", BINARY, TEXT, returns=ty.STRING)
define("PRINTF", TEXT, ANY, returns=ty.STRING, repeated=True, nullable=True)
define("JSON_QUOTE", TEXT, returns=ty.STRING)
define("JSON_UNQUOTE", TEXT, returns=ty.STRING)
for _name in ("IS_ALPHA", "IS_DIGIT", "IS_DECIMAL"):
    define(_name, one_of(TEXT, kinds("number", ty.is_number)), returns=ty.BOOLEAN, nullable=False)


def _joined(operands: Sequence[Rex], _: MessageWording) -> Rex:
    usage = "text || text"
    if len(operands) < 2:
        raise wrong_count("||", operands, usage)
    result = operands[0]
    for at in range(1, len(operands)):
        result = _two_joined(result, operands[at], usage)
    return result


def _two_joined(left: Rex, right: Rex, usage: str) -> Rex:
    if ty.is_null(left):
        left = ty.cast_to(left, ty.STRING if ty.is_null(right) else right.type)
    if ty.is_null(right):
        right = ty.cast_to(right, left.type)
    texts, bytes_ = (
        (ty.is_text, t.CharType, t.VarCharType),
        (ty.is_binary, t.BinaryType, t.VarBinaryType),
    )
    for fits, fixed, varying in (texts, bytes_):
        if fits(left.type) and fits(right.type):
            length = min(left.type.length + right.type.length, t.LONGEST)  # type: ignore[attr-defined]
            both = isinstance(left.type, fixed) and isinstance(right.type, fixed)
            result: t.DataType = (fixed if both else varying)(length)
            nullable = ty.any_nullable((left, right))
            return Call(ty.with_nullable(result, nullable), "||", (left, right))
    wrong = 0 if not (ty.is_text(left.type) or ty.is_binary(left.type)) else 1
    raise wrong_operand("||", wrong, (left, right), usage)


register("||", "text || text", _joined)


def _trim(operands: Sequence[Rex], _: MessageWording) -> Rex:
    usage = "TRIM([BOTH | LEADING | TRAILING] [text FROM] text)"
    where = Symbol(t.NullType(), "BOTH")
    rest = list(operands)
    if rest and isinstance(rest[0], Symbol):
        where = rest.pop(0)  # type: ignore[assignment]
    if len(rest) == 1:
        rest.insert(0, Literal(t.CharType(1, False), " "))
    if len(rest) != 2:
        raise wrong_count("TRIM", operands, usage)
    converted = [TEXT.convert(each) for each in rest]
    characters, text = converted
    if characters is None or text is None:
        raise wrong_operand("TRIM", 0 if characters is None else 1, rest, usage)
    result = ty.with_nullable(_varying([text]), ty.any_nullable((characters, text)))
    return Call(result, "TRIM", (where, characters, text))


register("TRIM", "TRIM([BOTH | LEADING | TRAILING] [text FROM] text)", _trim)


def _overlay(operands: Sequence[Rex]) -> t.DataType:
    lengths = [each.type.length for each in operands[:2]]  # type: ignore[attr-defined]
    return t.VarCharType(min(sum(lengths), t.LONGEST))


define("OVERLAY", TEXT, TEXT, INTEGER, INTEGER, optional=1, returns=_overlay)


def _elt(operands: Sequence[Rex], _: MessageWording) -> Rex:
    usage = "ELT(index, text, ...)"
    if len(operands) < 2:
        raise wrong_count("ELT", operands, usage)
    index = INTEGER.convert(operands[0])
    if index is None:
        raise wrong_operand("ELT", 0, operands, usage)
    for at, each in enumerate(operands[1:], 1):
        if not (ty.is_text(each.type) or ty.is_binary(each.type) or ty.is_null(each)):
            raise wrong_operand("ELT", at, operands, usage)
    choices = common_operands("ELT", operands[1:])
    return Call(choices[0].type.nullable(), "ELT", (index, *choices))


register("ELT", "ELT(index, text, ...)", _elt)
