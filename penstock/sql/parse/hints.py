"""The grammar of hints: /*+ OPTIONS('k'='v'), LOOKUP('table'='t'), STATE_TTL('a'='1d'), BROADCAST(t) */."""

from __future__ import annotations

from penstock.sql.errors import SqlParseError, nearest
from penstock.sql.parse.stream import TokenStream
from penstock.sql.parse.tokens import (
    SqlText,
    Token,
    TokenKind,
    tokenize,
)
from penstock.sql.parse.trees import Hint

# The hints of Flink; join hints select the join strategy of batch jobs.
HINTS = (
    "OPTIONS",
    "LOOKUP",
    "STATE_TTL",
    "BROADCAST",
    "SHUFFLE_HASH",
    "SHUFFLE_MERGE",
    "NEST_LOOP",
    "MULTI_JOIN",
)
_OF_OPTIONS = ("OPTIONS", "LOOKUP", "STATE_TTL")  # the others are about tables


def parse_hints(source: SqlText, token: Token) -> tuple[Hint, ...]:
    """Return the hints that a token holds. Places in errors are those of the statement."""
    start = source.text.index("/*+", token.start) + 3
    body = source.text[start : token.end - 2]
    try:
        tokens = tokenize(SqlText(body))
    except SqlParseError as error:
        raise source.error(error.message, token.start, token.end, error.hint) from None
    moved = [
        Token(one.kind, one.text, one.upper, one.start + start, one.end + start) for one in tokens
    ]
    return _HintParser(TokenStream(source, moved)).hints()


class _HintParser:
    def __init__(self, tokens: TokenStream) -> None:
        self._tokens = tokens

    def hints(self) -> tuple[Hint, ...]:
        found = [self._hint()]
        while not self._tokens.at_end:
            self._tokens.accept(",")
            found.append(self._hint())
        return tuple(found)

    def _hint(self) -> Hint:
        token = self._tokens.current
        name = self._tokens.name("the name of a hint").upper()
        if name not in HINTS:
            near = nearest(name, HINTS)
            raise self._tokens.error_at(
                token,
                f"unknown hint {name}",
                f"did you mean {near}?" if near else f"known hints: {', '.join(HINTS)}",
            )
        options: dict[str, str] = {}
        arguments: list[str] = []
        if self._tokens.accept("(") and not self._tokens.accept(")"):
            self._item(options, arguments)
            while self._tokens.accept(","):
                self._item(options, arguments)
            self._tokens.expect(")")
        self._check(token, name, options, arguments)
        return Hint(name, options, tuple(arguments), self._tokens.source.position(token.start))

    def _check(
        self, token: Token, name: str, options: dict[str, str], arguments: list[str]
    ) -> None:
        if name not in _OF_OPTIONS:
            if options or not arguments:
                raise self._tokens.error_at(token, f"{name} needs tables", f"write {name}(a, b)")
        elif arguments or not options:
            raise self._tokens.error_at(
                token, f"{name} needs options", f"write {name}('key' = 'value')"
            )
        elif name == "LOOKUP" and "table" not in options:
            raise self._tokens.error_at(token, "LOOKUP is missing option 'table'")

    def _item(self, options: dict[str, str], arguments: list[str]) -> None:
        if (
            self._tokens.current.kind is TokenKind.STRING
            or self._tokens.current.kind is TokenKind.NUMBER
        ):
            key = self._tokens.take().text
        else:
            key = ".".join(self._tokens.path("a string or a name"))
        if self._tokens.accept("="):
            token = self._tokens.current
            if token.kind not in (TokenKind.STRING, TokenKind.NUMBER, TokenKind.WORD):
                self._tokens.wanted("a string")
                raise self._tokens.failure()
            options[key] = self._tokens.take().text
        else:
            arguments.append(key)
