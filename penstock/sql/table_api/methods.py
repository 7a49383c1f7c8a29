"""The methods of expressions that are functions of SQL under another name, as tables; `fill` gives them to the class."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from penstock.sql.table_api.expression import (
    AggregateExpression,
    Expression,
    TemplateExpression,
    ValueExpression,
)

# SQL functions and aggregates, by their names in the API. Properties have no operands but the expression itself.

_PROPERTIES = {
    "abs": "ABS", "acos": "ACOS", "ascii": "ASCII", "asin": "ASIN", "atan": "ATAN", "bin": "BIN", "cardinality": "CARDINALITY",
    "char_length": "CHAR_LENGTH", "chr": "CHR", "cos": "COS", "cosh": "COSH", "cot": "COT", "degrees": "DEGREES", "element": "ELEMENT",
    "exp": "EXP", "from_base64": "FROM_BASE64", "hex": "HEX", "init_cap": "INITCAP", "ln": "LN", "log10": "LOG10", "log2": "LOG2",
    "lower_case": "LOWER", "map_entries": "MAP_ENTRIES", "map_keys": "MAP_KEYS", "map_values": "MAP_VALUES", "md5": "MD5",
    "radians": "RADIANS", "reverse": "REVERSE", "sha1": "SHA1", "sha224": "SHA224", "sha256": "SHA256", "sha384": "SHA384",
    "sha512": "SHA512", "sign": "SIGN", "sin": "SIN", "sinh": "SINH", "sqrt": "SQRT", "tan": "TAN", "tanh": "TANH",
    "to_base64": "TO_BASE64", "unhex": "UNHEX", "upper_case": "UPPER",
}  # fmt: skip
_TEMPLATES = {
    "is_null": "({} IS NULL)", "is_not_null": "({} IS NOT NULL)", "is_true": "({} IS TRUE)", "is_false": "({} IS FALSE)",
    "is_not_true": "({} IS NOT TRUE)", "is_not_false": "({} IS NOT FALSE)",
    "to_date": "CAST({} AS DATE)", "to_time": "CAST({} AS TIME)", "to_timestamp": "CAST({} AS TIMESTAMP(3))",
}  # fmt: skip
_AGGREGATES = {
    "array_agg": "ARRAY_AGG", "avg": "AVG", "collect": "COLLECT", "count": "COUNT", "first_value": "FIRST_VALUE",
    "last_value": "LAST_VALUE", "max": "MAX", "min": "MIN", "stddev_pop": "STDDEV_POP", "stddev_samp": "STDDEV_SAMP",
    "sum": "SUM", "sum0": "$SUM0", "var_pop": "VAR_POP", "var_samp": "VAR_SAMP",
}  # fmt: skip
_INTERVALS = {
    "year": ("MONTH", 12), "years": ("MONTH", 12), "quarter": ("MONTH", 3), "quarters": ("MONTH", 3), "month": ("MONTH", 1),
    "months": ("MONTH", 1), "week": ("DAY", 7), "weeks": ("DAY", 7), "day": ("DAY", 1), "days": ("DAY", 1), "hour": ("HOUR", 1),
    "hours": ("HOUR", 1), "minute": ("MINUTE", 1), "minutes": ("MINUTE", 1), "second": ("SECOND", 1), "seconds": ("SECOND", 1),
    "milli": ("MILLI", 1), "millis": ("MILLI", 1),
}  # fmt: skip
# name: (function of SQL, operands); an operand in brackets may be left out, one with a star repeats.
_METHODS = {
    "array_append": ("ARRAY_APPEND", "addition"), "array_concat": ("ARRAY_CONCAT", "*arrays"), "array_contains": ("ARRAY_CONTAINS", "needle"),
    "array_distinct": ("ARRAY_DISTINCT", ""), "array_except": ("ARRAY_EXCEPT", "array"), "array_intersect": ("ARRAY_INTERSECT", "array"),
    "array_join": ("ARRAY_JOIN", "delimiter [null_replacement]"), "array_max": ("ARRAY_MAX", ""), "array_min": ("ARRAY_MIN", ""),
    "array_position": ("ARRAY_POSITION", "needle"), "array_prepend": ("ARRAY_PREPEND", "addition"), "array_remove": ("ARRAY_REMOVE", "needle"),
    "array_reverse": ("ARRAY_REVERSE", ""), "array_slice": ("ARRAY_SLICE", "start_offset [end_offset]"),
    "array_sort": ("ARRAY_SORT", "[ascending_order] [null_first]"), "array_union": ("ARRAY_UNION", "array"), "btrim": ("BTRIM", "[trim_str]"),
    "bitmap_and": ("BITMAP_AND", "bitmap2"), "bitmap_andnot": ("BITMAP_ANDNOT", "bitmap2"), "bitmap_build": ("BITMAP_BUILD", ""),
    "bitmap_cardinality": ("BITMAP_CARDINALITY", ""), "bitmap_from_bytes": ("BITMAP_FROM_BYTES", ""), "bitmap_or": ("BITMAP_OR", "bitmap2"),
    "bitmap_to_array": ("BITMAP_TO_ARRAY", ""), "bitmap_to_bytes": ("BITMAP_TO_BYTES", ""), "bitmap_to_string": ("BITMAP_TO_STRING", ""),
    "bitmap_xor": ("BITMAP_XOR", "bitmap2"), "decode": ("DECODE", "charset"), "elt": ("ELT", "expr *exprs"), "encode": ("ENCODE", "charset"), "ends_with": ("ENDSWITH", "end_expr"),
    "if_null": ("IFNULL", "null_replacement"), "inet_aton": ("INET_ATON", ""), "inet_ntoa": ("INET_NTOA", ""), "instr": ("INSTR", "s"),
    "json_quote": ("JSON_QUOTE", ""), "json_unquote": ("JSON_UNQUOTE", ""), "left": ("LEFT", "length"), "lpad": ("LPAD", "length pad"),
    "ltrim": ("LTRIM", "[trim_str]"), "map_union": ("MAP_UNION", "*maps"), "object_update": ("OBJECT_UPDATE", "*kv"),
    "parse_url": ("PARSE_URL", "part_to_extract [key]"), "printf": ("PRINTF", "*obj"), "regexp": ("REGEXP", "regex"),
    "regexp_count": ("REGEXP_COUNT", "regex"), "regexp_extract": ("REGEXP_EXTRACT", "regex [extract_index]"),
    "regexp_extract_all": ("REGEXP_EXTRACT_ALL", "regex [extract_index]"), "regexp_instr": ("REGEXP_INSTR", "regex"),
    "regexp_replace": ("REGEXP_REPLACE", "regex replacement"), "regexp_substr": ("REGEXP_SUBSTR", "regex"), "repeat": ("REPEAT", "n"),
    "replace": ("REPLACE", "[search] [replacement]"), "right": ("RIGHT", "length"), "round": ("ROUND", "places"), "rpad": ("RPAD", "length pad"),
    "rtrim": ("RTRIM", "[trim_str]"), "sha2": ("SHA2", "hash_length"), "split": ("SPLIT", "delimiter"),
    "split_index": ("SPLIT_INDEX", "separator index"), "starts_with": ("STARTSWITH", "start_expr"),
    "str_to_map": ("STR_TO_MAP", "[list_delimiter] [key_value_delimiter]"), "substr": ("SUBSTR", "begin_index [length]"),
    "substring": ("SUBSTRING", "begin_index [length]"), "translate": ("TRANSLATE", "from_str to_str"), "truncate": ("TRUNCATE", "[n]"),
    "url_decode": ("URL_DECODE", ""), "url_encode": ("URL_ENCODE", ""),
}  # fmt: skip
# These take the expression as an operand that is not the first.
_TURNED = {
    "locate": ("LOCATE", "s [pos]"),
    "log": ("LOG", "[base]"),
}
_AGGREGATE_METHODS = {
    f"bitmap_{kind}_{more}agg": f"BITMAP_{kind.upper()}_{more.upper()}AGG"
    for kind in ("build", "and", "or", "xor")
    for more in ("", "cardinality_")
}


def _property(template: str, name: str) -> property:
    return property(lambda self: TemplateExpression(template, self), doc=f"SQL function {name}.")


def _aggregate(function: str) -> property:
    return property(
        lambda self: AggregateExpression(function, (self,)), doc=f"{function} of a group."
    )


def _aggregate_method(name: str, function: str) -> Callable[[Expression], Expression]:
    def call(self: Expression) -> Expression:
        return AggregateExpression(function, (self,))

    call.__name__ = name
    call.__qualname__ = f"Expression.{name}"
    call.__doc__ = f"{function} of a group."
    return call


def _interval_property(unit: str, factor: int) -> property:
    def interval(self: Expression) -> Expression:
        if isinstance(self, ValueExpression) and isinstance(self.value, int):
            return TemplateExpression(_interval_text(self.value * factor, unit))
        if unit == "MILLI":
            return TemplateExpression("({} * INTERVAL '0.001' SECOND(1, 3))", self)
        amount = self if factor == 1 else TemplateExpression(f"({{}} * {factor})", self)
        return TemplateExpression(f"({{}} * INTERVAL '1' {unit})", amount)

    return property(interval, doc=f"An interval of so many times {factor} {unit}.")


def _interval_text(amount: int, unit: str) -> str:
    digits = max(2, len(str(abs(amount))))
    if unit != "MILLI":
        precision = f"({digits})" if digits > 2 else ""
        return f"INTERVAL '{amount}' {unit}{precision}"
    sign = "-" if amount < 0 else ""
    seconds, millis = divmod(abs(amount), 1000)
    digits = max(2, len(str(seconds)))
    return f"INTERVAL '{sign}{seconds}.{millis:03d}' SECOND({digits}, 3)"


def _method(name: str, function: str, operands: str, turned: bool = False) -> Callable[..., Any]:
    kinds = inspect.Parameter
    parameters = [kinds("self", kinds.POSITIONAL_OR_KEYWORD)]
    for operand in operands.split():
        if operand.startswith("*"):
            parameters.append(kinds(operand[1:], kinds.VAR_POSITIONAL))
        elif operand.startswith("["):
            parameters.append(kinds(operand.strip("[]"), kinds.POSITIONAL_OR_KEYWORD, default=None))
        else:
            parameters.append(kinds(operand, kinds.POSITIONAL_OR_KEYWORD))
    signature = inspect.Signature(parameters)

    def call(*args: Any, **kwargs: Any) -> Expression:
        bound = signature.bind(*args, **kwargs)
        found: list[Any] = []
        for parameter in parameters:
            value = bound.arguments.get(parameter.name)
            if parameter.kind is kinds.VAR_POSITIONAL:
                found += value or ()
            elif value is not None or parameter.default is kinds.empty:
                found.append(value)
        if turned and len(found) > 1:
            found[0], found[1] = found[1], found[0]
        return TemplateExpression(f"{function}({', '.join(['{}'] * len(found))})", *found)

    call.__name__ = name
    call.__qualname__ = f"Expression.{name}"
    call.__doc__ = f"SQL function {function}."
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def fill() -> None:
    """Give all methods of the tables to Expression."""
    for name, function in _PROPERTIES.items():
        setattr(Expression, name, _property(f"{function}({{}})", function))
    for name, template in _TEMPLATES.items():
        setattr(Expression, name, _property(template, template))
    for name, function in _AGGREGATES.items():
        setattr(Expression, name, _aggregate(function))
    for name, (unit, factor) in _INTERVALS.items():
        setattr(Expression, name, _interval_property(unit, factor))
    for name, (function, operands) in _METHODS.items():
        setattr(Expression, name, _method(name, function, operands))
    for name, (function, operands) in _TURNED.items():
        setattr(Expression, name, _method(name, function, operands, turned=name == "log"))
    for name, function in _AGGREGATE_METHODS.items():
        setattr(Expression, name, _aggregate_method(name, function))


fill()
