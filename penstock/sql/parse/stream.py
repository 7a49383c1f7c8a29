"""A token stream that records expected tokens, so that an error can list them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from sqlglot import exp

from penstock.sql.errors import SqlParseError, nearest
from penstock.sql.parse.tokens import (
    SqlText,
    Token,
    TokenKind,
    tokenize,
)

T = TypeVar("T")
E = TypeVar("E", bound=exp.Expression)

# Words that cannot be names without quotes: each of them may follow where a name could stand.
RESERVED = frozenset(
    [
        "ALL",
        "AND",
        "ANY",
        "AS",
        "BETWEEN",
        "BY",
        "CASE",
        "CAST",
        "CREATE",
        "CROSS",
        "DESCRIBE",
        "DISTINCT",
        "DROP",
        "ELSE",
        "END",
        "EXCEPT",
        "EXISTS",
        "FALSE",
        "FETCH",
        "FOR",
        "FROM",
        "FULL",
        "GROUP",
        "HAVING",
        "IN",
        "INNER",
        "INSERT",
        "INTERSECT",
        "INTO",
        "IS",
        "JOIN",
        "LATERAL",
        "LEFT",
        "LIKE",
        "LIMIT",
        "MATCH_RECOGNIZE",
        "MINUS",
        "NATURAL",
        "NOT",
        "NULL",
        "OFFSET",
        "ON",
        "OR",
        "ORDER",
        "OUTER",
        "OVER",
        "PARTITION",
        "QUALIFY",
        "RIGHT",
        "SELECT",
        "SIMILAR",
        "SOME",
        "TABLE",
        "TABLESAMPLE",
        "THEN",
        "TRUE",
        "UNION",
        "UNKNOWN",
        "UNNEST",
        "USING",
        "VALUES",
        "WHEN",
        "WHERE",
        "WINDOW",
        "WITH",
    ]
)


class TokenStream:
    """Tokens with a place in them. Tokens that were expected and not found are recorded for the farthest position."""

    def __init__(self, source: SqlText, tokens: list[Token] | None = None) -> None:
        self.source = source
        self._tokens = tokenize(source) if tokens is None else tokens
        self.index = 0
        self._expected: dict[str, None] = {}
        self._expected_at = 0
        self._needed = ""
        self._taken_for_names: set[int] = set()  # tokens that were parsed as names

    # --- looking ------------------------------------------------------------------------------

    @property
    def current(self) -> Token:
        """The token that comes next."""
        return self._tokens[self.index]

    def ahead(self, count: int = 1) -> Token:
        """Return the token `count` places further on."""
        return self.at(self.index + count)

    def at(self, index: int) -> Token:
        """Return the token at an index; behind the last one is the end of the statement."""
        return self._tokens[min(index, len(self._tokens) - 1)]

    @property
    def previous(self) -> Token:
        """The token before the current one."""
        return self._tokens[self.index - 1]

    @property
    def at_end(self) -> bool:
        """Whether all tokens are taken."""
        return self.current.kind is TokenKind.END

    def looking_at(self, *words: str) -> bool:
        """Return whether these words or symbols come next, one after the other, without asking for them."""
        return all(self.ahead(count).upper == word for count, word in enumerate(words))

    # --- taking -------------------------------------------------------------------------------

    def take(self) -> Token:
        """Take the current token, of any kind."""
        token = self._tokens[self.index]
        if token.kind is not TokenKind.END:
            self.index += 1
        return token

    def skip(self, count: int) -> None:
        """Take tokens that were looked at."""
        self.index += count

    def go_back(self, index: int) -> None:
        """Return to the token at an index, to parse it in another way."""
        self.index = index

    def accept(self, *words: str) -> bool:
        """Take these words or symbols if all of them come next."""
        tokens, index = self._tokens, self.index
        for count, word in enumerate(words):
            if tokens[min(index + count, len(tokens) - 1)].upper != word:
                if count == 0:
                    self.wanted(" ".join(words))
                else:
                    self.wanted(word, index + count)
                return False
        self.index += len(words)
        return True

    def accept_any(self, *words: str) -> str | None:
        """Take one of these words, if it comes next."""
        if self.current.upper in words:
            return self.take().upper
        for word in words:
            self.wanted(word)
        return None

    def expect(self, *words: str) -> Token:
        """Take these words, or fail."""
        for word in words:
            if self.current.upper != word:
                self.wanted(word)
                self._needed = word
                raise self.failure()
            self.take()
        return self.previous

    def expect_any(self, *words: str) -> str:
        """Take one of these words, or fail."""
        word = self.accept_any(*words)
        if word is None:
            raise self.failure()
        return word

    def wanted(self, what: str, index: int | None = None) -> None:
        """Record that `what` was expected here."""
        index = self.index if index is None else index
        if index > self._expected_at:
            self._expected = {}
            self._expected_at = index
        if index == self._expected_at:
            self._expected[what] = None

    def string(self, what: str = "a string") -> str:
        """Take a string."""
        if self.current.kind is not TokenKind.STRING:
            self.wanted(what)
            raise self.failure()
        return self.take().text

    def number(self) -> int:
        """Take a whole number."""
        if self.current.kind is not TokenKind.NUMBER or not self.current.text.isdigit():
            self.wanted("a whole number")
            raise self.failure()
        return int(self.take().text)

    def separated(self, parse: Callable[[], T], separator: str = ",") -> list[T]:
        """Take one or more of something with commas between."""
        found = [parse()]
        while self.accept(separator):
            found.append(parse())
        return found

    def in_parentheses(self, parse: Callable[[], T]) -> T:
        """Take something in parentheses."""
        self.expect("(")
        found = parse()
        self.expect(")")
        return found

    def expect_end(self) -> None:
        """Fail unless all tokens are taken."""
        if not self.at_end:
            self.wanted("the end of the statement")
            raise self.failure()

    # --- names --------------------------------------------------------------------------------

    def at_name(self) -> bool:
        """Return whether a name comes next: in backquotes, or a word that is not reserved."""
        token = self.current
        return token.kind is TokenKind.QUOTED or (
            token.kind is TokenKind.WORD and token.upper not in RESERVED
        )

    def identifier(self, what: str = "a name") -> exp.Identifier:
        """Take a name."""
        if not self.at_name():
            self.wanted(what)
            if self.current.kind is TokenKind.WORD and self._expected_at == self.index:
                raise self.failure(f"quote it if it is a name: `{self.current.text}`")
            raise self.failure()
        self._taken_for_names.add(self.index)
        token = self.take()
        quoted = token.kind is TokenKind.QUOTED
        return self.placed(exp.Identifier(this=token.text, quoted=quoted), self.index - 1)

    def any_identifier(self, what: str = "a name") -> exp.Identifier:
        """Take a name where even reserved words are clear: behind a dot or AS."""
        token = self.current
        if token.kind is TokenKind.WORD and token.upper in RESERVED:
            self.take()
            return self.placed(exp.Identifier(this=token.text, quoted=False), self.index - 1)
        return self.identifier(what)

    def name(self, what: str = "a name") -> str:
        """Take a name as text."""
        return str(self.identifier(what).this)

    def path(self, what: str = "a name") -> tuple[str, ...]:
        """Take a name of one or more parts with dots between."""
        parts = [self.name(what)]
        while self.accept("."):
            parts.append(str(self.any_identifier(what).this))
        return tuple(parts)

    # --- nodes and errors ---------------------------------------------------------------------

    def placed(self, node: E, start: int) -> E:
        """Write into a node where it is: from the token with this index up to the current one."""
        first = self._tokens[start]
        last = self._tokens[max(self.index - 1, start)]
        line, column = self.source.position(first.start)
        node.meta.update(line=line, col=column, start=first.start, end=last.end)
        return node

    def text_between(self, start: int, end: int) -> str:
        """Return how the tokens from one index to another (without it) are written."""
        return self.source.text[self._tokens[start].start : self._tokens[end - 1].end]

    def expected_words(self) -> list[str]:
        """Return the expected tokens at the farthest position."""
        return list(self._expected)

    def error_at(self, token: Token, message: str, hint: str | None = None) -> SqlParseError:
        """Return an error about a token."""
        return self.source.error(message, token.start, token.end, hint)

    def failure(self, hint: str | None = None) -> SqlParseError:
        """Return the error about the token that nothing was expected of."""
        at = max(self._expected_at, self.index)
        token = self._tokens[at]
        expected = list(self._expected) if self._expected_at == at else []
        if self._needed in expected:  # required tokens are listed before optional ones
            expected.remove(self._needed)
            expected.insert(0, self._needed)
        if token.kind is TokenKind.END:
            message = "the statement ends too early"
        elif token.kind is TokenKind.SYMBOL:
            message = f"unexpected '{token.text}'"
        else:
            message = f"unexpected {token.kind.value} {_shown(token)}"
        if expected:
            message += f", expected {_listed(expected)}"
        return self.error_at(token, message, self.meant(at, expected) or hint)

    def meant(self, at: int, expected: list[str]) -> str | None:
        """Return the hint with the keyword that a misspelt word may stand for: the token itself, or the word before it that was parsed as a name."""
        words = [word for text in expected for word in re.findall("[A-Z_]{2,}", text)]
        before = self._tokens[at - 1] if at - 1 in self._taken_for_names else None
        if at > 1 and self._tokens[at - 2].upper in _BEFORE_NAMES:
            before = None
        for token in (self._tokens[at], before):
            if token is None or token.kind is not TokenKind.WORD or token.upper in RESERVED:
                continue
            candidates = words if token is self._tokens[at] else [*words, *_CLAUSES]
            found = nearest(token.upper, candidates, cutoff=0.7)
            if found is not None and found != token.upper:
                return f"did you mean {found} instead of {token.text}?"
        return None


_BEFORE_NAMES = ("FROM", "JOIN", "INTO", "TABLE", "AS", ".")  # the next token is meant as a name
_CLAUSES = ("FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "JOIN", "UNION", "SELECT", "INTO")


def _shown(token: Token) -> str:
    text = token.text if len(token.text) <= 30 else token.text[:27] + "..."
    return f"'{text}'"


def _listed(words: list[str], most: int = 8) -> str:
    """Return the words as `a, b or c`, cut where there are too many."""
    shown = [word if word[0].isalpha() else f"'{word}'" for word in words[:most]]
    if len(words) > most:
        return ", ".join(shown) + " or others"
    if len(shown) == 1:
        return shown[0]
    return ", ".join(shown[:-1]) + " or " + shown[-1]
