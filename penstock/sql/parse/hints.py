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
    stream = _HintParser(source, moved)
    return stream.hints()


class _HintParser(TokenStream):
    def hints(self) -> tuple[Hint, ...]:
        found = [self._hint()]
        while not self.at_end:
            self.accept(",")
            found.append(self._hint())
        return tuple(found)

    def _hint(self) -> Hint:
        token = self.current
        name = self.name("the name of a hint").upper()
        if name not in HINTS:
            near = nearest(name, HINTS)
            raise self.error_at(
                token,
                f"unknown hint {name}",
                f"did you mean {near}?" if near else f"known hints: {', '.join(HINTS)}",
            )
        options: dict[str, str] = {}
        arguments: list[str] = []
        if self.accept("(") and not self.accept(")"):
            self._item(options, arguments)
            while self.accept(","):
                self._item(options, arguments)
            self.expect(")")
        self._check(token, name, options, arguments)
        return Hint(name, options, tuple(arguments), self.source.position(token.start))

    def _check(
        self, token: Token, name: str, options: dict[str, str], arguments: list[str]
    ) -> None:
        if name not in _OF_OPTIONS:
            if options or not arguments:
                raise self.error_at(token, f"{name} needs tables", f"write {name}(a, b)")
        elif arguments or not options:
            raise self.error_at(token, f"{name} needs options", f"write {name}('key' = 'value')")
        elif name == "LOOKUP" and "table" not in options:
            raise self.error_at(token, "LOOKUP is missing option 'table'")

    def _item(self, options: dict[str, str], arguments: list[str]) -> None:
        if self.current.kind is TokenKind.STRING or self.current.kind is TokenKind.NUMBER:
            key = self.take().text
        else:
            key = ".".join(self.path("a string or a name"))
        if self.accept("="):
            token = self.current
            if token.kind not in (TokenKind.STRING, TokenKind.NUMBER, TokenKind.WORD):
                self.wanted("a string")
                raise self.failure()
            options[key] = self.take().text
        else:
            arguments.append(key)
