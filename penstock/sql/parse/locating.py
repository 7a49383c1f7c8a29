"""Where a name is written: for errors that are found when nothing but the name is left."""

from __future__ import annotations

import re

from penstock.sql.errors import Position, SqlError
from penstock.sql.parse.tokens import SqlText, TokenKind, tokenize

# 'name', or `catalog`.`database`.`name`, of which the last part is what people write.
_NAMED = re.compile(r"'([^']+)'|`(?:[^`]|``)+`(?:\.`(?:[^`]|``)+`)*")


def position_of_name(
    text: str, name: str, begin: int = 0, *, occurrence: int = 0
) -> tuple[Position, int] | None:
    """Return where a name stands in a text that can be read, behind `begin`, and how long it is.

    >>> position_of_name("DROP TABLE t", "t")
    ((1, 12), 1)
    """
    source = SqlText(text)
    found = [
        token
        for token in tokenize(source)
        if token.start >= begin
        and token.kind in (TokenKind.WORD, TokenKind.QUOTED, TokenKind.STRING)
        and token.text == name
    ]
    if len(found) <= occurrence:
        return None
    token = found[occurrence]
    return source.position(token.start), token.end - token.start


def locate(error: SqlError, source: str, statement: str) -> None:
    """Give an error without a place the one of the first name in its message that is part of the statement."""
    if error.position is not None or not statement:
        return
    begin = max(source.find(statement), 0)
    names = [(match[1], match[0]) for match in _NAMED.finditer(error.message)]
    for plain, shown in sorted(names, key=lambda each: each[0] is None):
        name = plain or shown.split("`.`")[-1].strip("`").replace("``", "`")
        found = position_of_name(source, name, begin)
        if found is not None:
            error.at(found[0], source, found[1])
            return
