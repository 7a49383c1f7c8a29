"""Text as tokens: sqlglot's tokenizer with Flink's quotes, comments and hints. Words stay words; the parser knows which are keywords where."""

from __future__ import annotations

import bisect
import string
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token as GlotToken
from sqlglot.tokenizer_core import TokenType
from sqlglot.tokens import Tokenizer

from penstock.sql.errors import Position, SqlParseError


class TokenKind(Enum):
    """The kind of a token."""

    WORD = "word"
    QUOTED = "name"  # `in backquotes`
    STRING = "string"
    HEX = "binary string"
    NUMBER = "number"
    SYMBOL = "symbol"
    HINT = "hint"
    END = "end of the statement"


@dataclass(frozen=True, slots=True)
class Token:
    """A token: `text` without quotes, `upper` in upper case for words and symbols (empty for others), offsets into the text."""

    kind: TokenKind
    text: str
    upper: str
    start: int
    end: int


class FlinkTokenizer(Tokenizer):
    """sqlglot's tokenizer for Flink's SQL: names in backquotes, '' in strings, X'..' and U&'..', /*+ hints */."""

    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`"]
    QUOTES: ClassVar[list[tuple[str, str] | str]] = ["'"]
    STRING_ESCAPES: ClassVar[list[str]] = ["'"]
    HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("x'", "'"), ("X'", "'")]
    UNICODE_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("u&'", "'"), ("U&'", "'")]
    COMMENTS: ClassVar[list[str | tuple[str, str]]] = ["--", "//", ("/*", "*/")]
    NESTED_COMMENTS = False
    VAR_SINGLE_TOKENS: ClassVar[set[str]] = {"$", "@"}
    COMMANDS: ClassVar[set[TokenType]] = set()
    TOKENS_PRECEDING_HINT: ClassVar[set[TokenType]] = {
        TokenType.VAR,
        TokenType.IDENTIFIER,
        TokenType.R_PAREN,
    }
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        "/*+": TokenType.HINT,
        "||": TokenType.DPIPE,
        ">=": TokenType.GTE,
        "<=": TokenType.LTE,
        "<>": TokenType.NEQ,
        "!=": TokenType.NEQ,
        "=>": TokenType.FARROW,
        "{-": TokenType.L_BRACE,
        "-}": TokenType.R_BRACE,
    }


_KINDS = {
    TokenType.VAR: TokenKind.WORD,
    TokenType.IDENTIFIER: TokenKind.QUOTED,
    TokenType.STRING: TokenKind.STRING,
    TokenType.NATIONAL_STRING: TokenKind.STRING,
    TokenType.UNICODE_STRING: TokenKind.STRING,
    TokenType.HEX_STRING: TokenKind.HEX,
    TokenType.NUMBER: TokenKind.NUMBER,
    TokenType.HINT: TokenKind.HINT,
}


class SqlText:
    """A text and where its lines begin."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0]
        self._starts.extend(at + 1 for at, letter in enumerate(text) if letter == "\n")

    def position(self, offset: int) -> Position:
        """Return line and column of an offset, both from 1."""
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def error(
        self, message: str, start: int, end: int | None = None, hint: str | None = None
    ) -> SqlParseError:
        """Return the error about a part of the text."""
        length = 1 if end is None else max(end - start, 1)
        return SqlParseError(
            message,
            hint=hint,
            position=self.position(start),
            length=length,
            statement=self.text,
        )


def tokenize(source: SqlText) -> list[Token]:
    """Return the tokens of a text, the last one being its end."""
    text = source.text
    try:
        found = FlinkTokenizer().tokenize(text)
    except TokenError as error:
        raise _unfinished(source) or source.error(str(error), max(len(text) - 1, 0)) from None
    tokens = [_converted(source, token) for token in found]
    end = len(text.rstrip())
    tokens.append(Token(TokenKind.END, "", "", end, end))
    return tokens


def _converted(source: SqlText, token: GlotToken) -> Token:
    kind = _KINDS.get(token.token_type, TokenKind.SYMBOL)
    start, end = token.start, token.end + 1
    text = token.text
    if kind is TokenKind.SYMBOL:
        text = source.text[start:end]
        if not text.isascii() or text in '"#\\~':
            hint = "names are quoted with backquotes: `name`" if text.startswith('"') else None
            raise source.error(f"unexpected character {text[:1]}", start, start + 1, hint)
    elif kind is TokenKind.HEX and source.text[start] == "0":
        raise source.error(
            "hexadecimal numbers are not supported", start, end, "X'1F' is a bytes literal"
        )
    elif kind is TokenKind.HEX and (len(text) % 2 or set(text) - set(string.hexdigits)):
        raise source.error(
            f"invalid bytes literal X'{text}'",
            start,
            end,
            "use two hexadecimal digits per byte: X'01FF'",
        )
    elif kind is TokenKind.HINT:
        text = token.comments[0] if token.comments else ""
        end = source.text.find("*/", start) + 2
    elif token.token_type is TokenType.UNICODE_STRING:
        unescaped = _unescaped(text)
        if unescaped is None:
            hint = "write \\ and four hexadecimal digits, as in U&'\\00E9'; \\\\ is a backslash"
            raise source.error(f"U&'{text}' has an unknown escape", start, end, hint)
        text = unescaped
    upper = text.upper() if kind in (TokenKind.WORD, TokenKind.SYMBOL) else ""
    return Token(kind, text, upper, start, end)


def _unescaped(text: str) -> str | None:
    """Return the text of U&'...': backslash XXXX is a letter by its number. None if a backslash means nothing."""
    parts = text.split("\\")
    letters = [parts[0]]
    rest = iter(parts[1:])
    for part in rest:
        if not part:  # two backslashes: one
            letters.append("\\" + next(rest, ""))
        elif len(part) >= 4 and not set(part[:4]) - set(string.hexdigits):
            letters.append(chr(int(part[:4], 16)) + part[4:])
        else:
            return None
    return "".join(letters)


def _unfinished(source: SqlText) -> SqlParseError | None:
    """Return the error that says which quote or comment is not closed."""
    text, at = source.text, 0
    closing = {"'": "'", "`": "`", '"': '"', "/*": "*/"}
    names = {"'": "string", "`": "name", '"': "name", "/*": "comment"}
    while at < len(text):
        if text.startswith("--", at):
            line_end = text.find("\n", at)
            at = len(text) if line_end < 0 else line_end + 1
            continue
        opened = "/*" if text.startswith("/*", at) else text[at]
        if opened not in closing:
            at += 1
            continue
        end = text.find(closing[opened], at + len(opened))
        if end < 0:
            hint = f"close it with {closing[opened]}"
            return source.error(f"{names[opened]} is not closed", at, at + len(opened), hint)
        at = end + len(closing[opened])
    return None
