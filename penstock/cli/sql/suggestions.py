"""Completions at the cursor: tables after FROM, columns of the tables in the statement, functions, keywords, options."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from penstock.cli.sql.table_options import table_options
from penstock.sql.errors import SqlParseError
from penstock.sql.parse.tokens import (
    SqlText,
    Token,
    TokenKind,
    tokenize,
)
from penstock.sql.parse.type_names import TYPE_WORDS

Suggestion = tuple[
    str, int, str
]  # text, number of letters before the cursor that it replaces, kind

KEYWORDS = frozenset(
    [
        "ADD",
        "ALL",
        "ALTER",
        "AND",
        "AS",
        "ASC",
        "BEGIN",
        "BETWEEN",
        "BY",
        "CASE",
        "CAST",
        "CATALOG",
        "CATALOGS",
        "CHANGELOG_MODE",
        "COLUMN",
        "COLUMNS",
        "COMMENT",
        "CREATE",
        "CROSS",
        "CUBE",
        "CURRENT",
        "DATABASE",
        "DATABASES",
        "DEFINE",
        "DESC",
        "DESCRIBE",
        "DESCRIPTOR",
        "DISTINCT",
        "DROP",
        "ELSE",
        "END",
        "ENFORCED",
        "EXCEPT",
        "EXECUTE",
        "EXISTS",
        "EXPLAIN",
        "EXTENDED",
        "FALSE",
        "FILTER",
        "FIRST",
        "FOLLOWING",
        "FOR",
        "FROM",
        "FULL",
        "FUNCTION",
        "FUNCTIONS",
        "GROUP",
        "GROUPING",
        "HAVING",
        "IF",
        "IN",
        "INNER",
        "INSERT",
        "INTERSECT",
        "INTERVAL",
        "INTO",
        "IS",
        "JOB",
        "JOBS",
        "JOIN",
        "KEY",
        "LANGUAGE",
        "LAST",
        "LATERAL",
        "LEFT",
        "LIKE",
        "LIMIT",
        "MATCH_RECOGNIZE",
        "MEASURES",
        "METADATA",
        "NOT",
        "NULL",
        "NULLS",
        "OF",
        "OFFSET",
        "ON",
        "OR",
        "ORDER",
        "OUTER",
        "OVER",
        "OVERWRITE",
        "PARTITION",
        "PARTITIONED",
        "PATTERN",
        "PLAN",
        "PLAN_ADVICE",
        "PRECEDING",
        "PRIMARY",
        "PYTHON",
        "RANGE",
        "RENAME",
        "RESET",
        "RIGHT",
        "ROLLUP",
        "ROW",
        "ROWS",
        "SELECT",
        "SET",
        "SETS",
        "SHOW",
        "STATEMENT",
        "STOP",
        "SYSTEM_TIME",
        "TABLE",
        "TABLES",
        "TEMPORARY",
        "THEN",
        "TO",
        "TRUE",
        "TRY_CAST",
        "UNBOUNDED",
        "UNION",
        "UNNEST",
        "USE",
        "USING",
        "VALUES",
        "VIEW",
        "VIEWS",
        "VIRTUAL",
        "WATERMARK",
        "WHEN",
        "WHERE",
        "WINDOW",
        "WITH",
        "WITHIN",
    ]
)
_BEFORE_TABLES = ("FROM", "JOIN", "INTO", "OVERWRITE", "TABLE", "DESCRIBE", "DESC", "VIEW", "LIKE")
_FIRST = [
    "ALTER",
    "BEGIN",
    "CREATE",
    "DESCRIBE",
    "DROP",
    "EXECUTE",
    "EXPLAIN",
    "INSERT",
    "RESET",
    "SELECT",
    "SET",
    "SHOW",
    "STOP",
    "USE",
    "VALUES",
    "WITH",
]
_BEHIND = {
    "SHOW": [
        "CATALOGS",
        "COLUMNS",
        "CREATE",
        "CURRENT",
        "DATABASES",
        "FUNCTIONS",
        "JOBS",
        "TABLES",
        "VIEWS",
    ],
    "CREATE": ["CATALOG", "DATABASE", "FUNCTION", "TABLE", "TEMPORARY", "VIEW"],
    "DROP": ["CATALOG", "DATABASE", "FUNCTION", "TABLE", "TEMPORARY", "VIEW"],
    "ALTER": ["DATABASE", "FUNCTION", "TABLE", "VIEW"],
    "GROUP": ["BY"],
    "ORDER": ["BY"],
    "PARTITION": ["BY"],
    "INSERT": ["INTO", "OVERWRITE"],
    "EXPLAIN": ["CHANGELOG_MODE", "INSERT", "JSON_EXECUTION_PLAN", "PLAN_ADVICE", "SELECT"],
}
_MOST = 200
_MOST_TABLES = 20  # whose columns are looked up during typing


def suggestions(environment: object, before: str) -> Iterator[Suggestion]:
    """Yield the completions at the cursor; `before` is the text before it."""
    statement = before[_begin(before) :]
    option = re.search(r"(?i)^\s*(?:re)?set\s+'([^']*)$", statement)
    if option:
        yield from _matching(option[1], _option_keys(), "option")
        return
    in_with = table_options(statement)
    if in_with is not None:
        yield from _matching(in_with[0], in_with[1], "option")
        return
    try:
        tokens = tokenize(SqlText(statement))[:-1]
    except SqlParseError:  # in a string or a comment
        return
    word = ""
    if tokens and tokens[-1].kind is TokenKind.WORD and tokens[-1].end == len(statement):
        word = tokens.pop().text
    elif statement and not statement[-1].isspace() and statement[-1] not in "(,.=<>+-*/":
        return
    yield from itertools.islice(_candidates(environment, tokens, word), _MOST)


def _begin(text: str) -> int:
    """Return the start of the last statement."""
    from penstock.sql.parse.splitting import split_statements

    pieces, rest = split_statements(text)
    return text.rindex(rest) if pieces and rest else 0


def _candidates(environment: object, tokens: list[Token], word: str) -> Iterator[Suggestion]:
    last = tokens[-1].upper if tokens else ""
    if not tokens:
        yield from _matching(word, _FIRST, "")
        return
    if last == "." and len(tokens) > 1:
        yield from _matching(word, _columns_of(environment, tokens, tokens[-2].text), "column")
        return
    if last in _BEHIND:
        yield from _matching(word, _BEHIND[last], "")
        return
    if last in _BEFORE_TABLES or (last == "," and _in_from(tokens)):
        yield from _matching(word, _tables(environment), "table")
        return
    if not word:
        return
    yield from _matching(word, _columns(environment, tokens), "column")
    yield from _matching(word, sorted(KEYWORDS), "")
    yield from _matching(word, sorted(TYPE_WORDS), "type")
    yield from _matching(word, _functions(environment), "function")


def _matching(word: str, names: Iterable[str], meaning: str) -> Iterator[Suggestion]:
    lower = word.lower()
    upper = not word or word != lower
    seen = set()
    for name in names:
        if not name.lower().startswith(lower) or name.lower() == lower or name in seen:
            continue
        seen.add(name)
        shown = name if meaning in ("table", "column", "option") or upper else name.lower()
        yield shown, len(word), meaning


def _in_from(tokens: list[Token]) -> bool:
    """Return whether the last clause is FROM."""
    for token in reversed(tokens):
        if token.upper == "FROM":
            return True
        if token.upper in ("SELECT", "WHERE", "BY", "ON", "(", ")", "HAVING", "SET", "VALUES"):
            return False
    return False


def _tables(environment: Any) -> list[str]:
    return [_quoted(name) for name in environment.list_tables()]


def _functions(environment: Any) -> list[str]:
    return sorted(name.upper() for name in environment.list_functions())


def _columns(environment: Any, tokens: list[Token]) -> list[str]:
    """Return the columns of the tables that the statement names; of all tables if it names none yet."""
    named = {token.text for token in tokens if token.kind in (TokenKind.WORD, TokenKind.QUOTED)}
    tables = environment.list_tables()
    meant = [table for table in tables if table in named]
    if not meant and tokens[0].upper in ("SELECT", "WITH", "EXPLAIN", "INSERT"):
        meant = tables[:_MOST_TABLES]
    return [name for table in meant for name in _names_in(environment, table)]


def _columns_of(environment: Any, tokens: list[Token], name: str) -> list[str]:
    """Return the columns of a table, or of the table that a name is an alias of."""
    tables = environment.list_tables()
    if name in tables:
        return _names_in(environment, name)
    for first, second in itertools.pairwise(tokens):
        if second.text == name and first.text in tables:
            return _names_in(environment, first.text)
    for first, middle, second in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if second.text == name and middle.upper == "AS" and first.text in tables:
            return _names_in(environment, first.text)
    return []


def _names_in(environment: Any, table: str) -> list[str]:
    try:
        schema = environment.from_path(_quoted(table)).get_resolved_schema()
    except Exception:  # noqa: BLE001 - a broken table must not disturb typing
        return []
    return [_quoted(name) for name in schema.get_column_names()]


def _quoted(name: str) -> str:
    if re.fullmatch(r"[A-Za-z_]\w*", name) and name.upper() not in KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def _option_keys() -> list[str]:
    from penstock.options import OPTIONS
    from penstock.options.option_checks import support_of
    from penstock.options.support import Support

    effective = {Support.WORKS, Support.DIFFERENT}
    return sorted(key for key in OPTIONS if support_of(key).support in effective)
