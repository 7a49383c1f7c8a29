"""Output of the client: plain text for people, JSON lines for programs."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import JobExecutionError, PenstockError
from penstock.runtime.user_code import is_user_code
from penstock.sql.results.printing import text_of

if TYPE_CHECKING:
    from penstock.table import TableResult


_FRAME = re.compile(
    r'^  File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)\n(?P<code>    .*)$',
    re.MULTILINE,
)


class SqlClientOutput(Protocol):
    """Where the client prints."""

    def result(self, result: TableResult) -> None:
        """Show a result."""

    def job(self, job_id: str) -> None:
        """Print the id of a job that was started."""

    def note(self, text: str) -> None:
        """Print a note."""

    def text(self, text: str) -> None:
        """Show a text of several lines."""

    def error(self, error: BaseException) -> None:
        """Print an error."""

    def clear(self) -> None:
        """Clear the screen."""


def describe(error: BaseException) -> str:
    """Return an error without frames: Penstock's errors as their text, others with their class, a failed job with its cause."""
    if isinstance(error, JobExecutionError):
        cause = error.__cause__
        parts = [_last_line(error.message) if cause is None else describe(cause)]
        if not isinstance(cause, PenstockError):
            parts += _users_line(error.message)
        parts += [f"detail: {error.detail}"] if error.detail else []
        return "\n".join(parts)
    if isinstance(error, PenstockError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _users_line(text: str) -> list[str]:
    """Return the last line of the user's own code in a traceback, if it has one."""
    frames = [match for match in _FRAME.finditer(text) if is_user_code(match["file"])]
    if not frames:
        return []
    last = frames[-1]
    return [f"  {last['file']}, line {last['line']}, in {last['name']}: {last['code'].strip()}"]


def _last_line(text: str) -> str:
    """Return the last line of a traceback: the exception and its message."""
    lines = text.rstrip().split("\n")
    last = max((at for at, line in enumerate(lines) if line.startswith("  File")), default=-1)
    rest = [line for line in lines[last + 1 :] if not line.startswith(" ")]
    return "\n".join(rest) if rest else lines[-1]


class PlainOutput:
    """Writes plain text: results to standard output, everything else to standard error."""

    def __init__(self) -> None:
        self._colours = sys.stderr.isatty()

    def result(self, result: TableResult) -> None:
        """Print a result as Flink does."""
        result.print()

    def job(self, job_id: str) -> None:
        """Print the id of a job."""
        self._write(f"job {job_id} is running")

    def note(self, text: str) -> None:
        """Print a note."""
        self._write(text)

    def text(self, text: str) -> None:
        """Print a text."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def error(self, error: BaseException) -> None:
        """Print an error, in red in a terminal."""
        first, *rest = describe(error).split("\n")
        shown = f"\x1b[31m{first}\x1b[0m" if self._colours else first
        self._write("\n".join([f"error: {shown}", *rest]))

    def clear(self) -> None:
        """Clear the screen of a terminal."""
        if sys.stdout.isatty():
            self.text("\x1b[2J\x1b[H")

    def _write(self, text: str) -> None:
        sys.stdout.flush()
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


class JsonOutput:
    """Writes one JSON object per line: rows, jobs, errors."""

    def result(self, result: TableResult) -> None:
        """Print each row with its kind, columns by name."""
        schema = result.get_resolved_schema()
        names, types = schema.get_column_names(), schema.get_column_data_types()
        with result.collect() as rows:
            for row in rows:
                values = {
                    name: _plain(value, kind)
                    for name, value, kind in zip(names, row, types, strict=True)
                }
                self._print({"op": str(row.get_row_kind()), "row": values})

    def job(self, job_id: str) -> None:
        """Print the id of a job."""
        self._print({"job": job_id})

    def note(self, text: str) -> None:
        """Print nothing: notes are for people."""

    def text(self, text: str) -> None:
        """Print nothing: texts are for people."""

    def error(self, error: BaseException) -> None:
        """Print an error to standard error."""
        report: dict[str, Any] = {"message": describe(error)}
        if isinstance(error, PenstockError):
            report = {"message": error.message, "detail": error.detail, "hint": error.hint}
            report["position"] = getattr(error, "position", None)
        sys.stderr.write(json.dumps({"error": report}, ensure_ascii=False) + "\n")

    def clear(self) -> None:
        """Do nothing."""

    def _print(self, value: object) -> None:
        sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
        sys.stdout.flush()


def _plain(value: Any, kind: Any) -> object:
    """Return a value as JSON; a value without a JSON type as Flink prints it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return text_of(value, kind)
