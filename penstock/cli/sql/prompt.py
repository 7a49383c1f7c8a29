"""The prompt: line editing, history, completion and highlighting, until a semicolon ends the statement."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from penstock.cli.sql.client import ClientExit
from penstock.cli.sql.suggestions import KEYWORDS, suggestions
from penstock.cli.sql.view import show
from penstock.sql.errors import SqlParseError
from penstock.sql.parse.splitting import split_statements
from penstock.sql.parse.tokens import SqlText, TokenKind, tokenize

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.cli.sql.client import SqlClient

PROMPT = "Penstock SQL> "
_CONTINUED = "           -> "
_WORDS = ("quit", "exit", "help", "clear", "?")
_STYLE = Style.from_dict(
    {
        "prompt": "ansicyan bold",
        "keyword": "ansiblue bold",
        "string": "ansigreen",
        "number": "ansimagenta",
        "name": "ansiyellow",
        "comment": "ansibrightblack italic",
    }
)
_CLASSES = {
    TokenKind.STRING: "class:string",
    TokenKind.HEX: "class:string",
    TokenKind.NUMBER: "class:number",
    TokenKind.QUOTED: "class:name",
    TokenKind.HINT: "class:comment",
}


class Prompt:
    """Reads statements and lets the client execute them."""

    def __init__(self, client: SqlClient) -> None:
        self._client = client
        client.show_rows = show
        self._session: PromptSession[str] = PromptSession(
            history=_history(),
            completer=SqlCompleter(client),
            complete_while_typing=Condition(lambda: bool(get_app().current_buffer.text.strip())),
            lexer=SqlLexer(),
            style=_STYLE,
            multiline=True,
            prompt_continuation=_CONTINUED,
            key_bindings=_bindings(),
            enable_history_search=False,
        )

    def run(self) -> int:
        """Read and execute statements until the user quits; return the exit code."""
        self._client.output.text("Statements end with a semicolon. \\h shows help, \\q quits.\n")
        while True:
            try:
                text = self._session.prompt([("class:prompt", PROMPT)])
            except KeyboardInterrupt:
                continue
            except EOFError:
                if self._may_leave():
                    return 0
                continue
            try:
                self._run(text)
            except ClientExit:
                if self._may_leave():
                    return 0

    def _run(self, text: str) -> None:
        pieces, rest = split_statements(text)
        statements = [piece.text for piece in pieces]
        if rest:
            statements.append(rest)
        for statement in statements:
            if not self._client.run(statement):
                break

    def _may_leave(self) -> bool:
        running = self._client.running_jobs()
        if not running:
            return True
        count = "1 job runs" if len(running) == 1 else f"{len(running)} jobs run"
        try:
            answer = input(f"{count} in this process and would be cancelled. Quit? [y/N] ")
        except (EOFError, KeyboardInterrupt):
            answer = "n"
        if answer.strip().lower() not in ("y", "yes"):
            return False
        self._client.cancel_jobs()
        return True


def is_complete(text: str) -> bool:
    """Return whether the input can be executed: it ends with a semicolon, or is a command of the client."""
    stripped = text.strip()
    if not stripped or stripped.startswith("\\") or stripped.lower() in _WORDS:
        return True
    _, rest = split_statements(text)
    return not rest


def _history() -> History:
    """Return the history of this user, kept in PENSTOCK_HOME."""
    home = os.environ.get("PENSTOCK_HOME")
    directory = Path(home) if home else Path.home() / ".penstock"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "sql_history").touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(directory / "sql_history"))


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif (buffer.document.is_cursor_at_the_end and is_complete(buffer.text)) or (
            is_complete(buffer.text) and not buffer.document.text_after_cursor.strip()
        ):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @bindings.add("escape", "enter")
    def _execute(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return bindings


class SqlCompleter(Completer):
    """Completes words from the text before the cursor."""

    def __init__(self, client: SqlClient) -> None:
        self._client = client

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield the completions at the cursor."""
        before = document.text_before_cursor
        for text, length, meaning in suggestions(self._client.environment, before):
            yield Completion(text, start_position=-length, display_meta=meaning)


class SqlLexer(Lexer):
    """Colours keywords, strings, numbers and comments."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """Return a function that returns a line with its styles."""
        lines = _coloured(document.text)
        return lambda number: lines[number] if number < len(lines) else []


def _coloured(text: str) -> list[StyleAndTextTuples]:
    try:
        tokens = tokenize(SqlText(text))
    except SqlParseError:
        return [[("", line)] for line in text.split("\n")]
    spans: list[tuple[str, str]] = []
    at = 0
    for token in tokens[:-1]:
        if token.start > at:
            between = text[at : token.start]
            spans.append(("class:comment" if between.strip() else "", between))
        style = _CLASSES.get(token.kind, "")
        if token.kind is TokenKind.WORD and token.upper in KEYWORDS:
            style = "class:keyword"
        spans.append((style, text[token.start : token.end]))
        at = token.end
    if at < len(text):
        rest = text[at:]
        spans.append(("class:comment" if rest.strip() else "", rest))
    lines: list[StyleAndTextTuples] = [[]]
    for style, span in spans:
        first, *more = span.split("\n")
        lines[-1].append((style, first))
        lines.extend([(style, part)] for part in more)
    return lines
