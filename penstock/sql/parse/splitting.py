"""Several statements in one text, cut at their semicolons without being understood."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.sql.errors import SqlParseError
from penstock.sql.parse.tokens import (
    SqlText,
    Token,
    TokenKind,
    tokenize,
)


@dataclass(frozen=True, slots=True)
class StatementPiece:
    """A statement without its semicolon, and the line that it begins in."""

    text: str
    line: int


def split_statements(text: str) -> tuple[list[StatementPiece], str]:
    r"""Return the statements that a semicolon ends, and what is left behind the last one.

    Semicolons in strings, names and comments count for nothing, nor do those between the INSERTs of a statement set.

    >>> split_statements("SHOW TABLES; SELECT ';'\n  AS a; SELECT")
    ([StatementPiece(text='SHOW TABLES', line=1), StatementPiece(text="SELECT ';'\n  AS a", line=1)], 'SELECT')
    """
    source = SqlText(text)
    try:
        tokens = tokenize(source)
    except SqlParseError:  # an unclosed quote or comment
        return [], text
    pieces: list[StatementPiece] = []
    begun: list[Token] = []
    for token in tokens:
        if token.kind is TokenKind.END:
            break
        if token.upper != ";" or _inside_set(begun):
            begun.append(token)
        elif begun:
            first, last = begun[0], begun[-1]
            line, _ = source.position(first.start)
            pieces.append(StatementPiece(text[first.start : last.end], line))
            begun = []
    return pieces, text[begun[0].start :].rstrip() if begun else ""


def _inside_set(tokens: list[Token]) -> bool:
    """Return whether these tokens begin a statement set that has no END yet."""
    words = [token.upper for token in tokens[:3]]
    opened = words == ["BEGIN", "STATEMENT", "SET"] or (
        words[:1] and words[0] in ("EXECUTE", "EXPLAIN") and words[1:] == ["STATEMENT", "SET"]
    )
    return bool(opened) and tokens[-1].upper != "END"
