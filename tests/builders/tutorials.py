"""Follows a tutorial as its reader does: saves its files, types its commands, and compares what they print.

A block with the title `job.py` is that file. A `console` block is what a terminal shows: commands after `$ `, and their output. The title names the
terminal if there are several. In an output

* `...` stands for any text;
* inserted rows of a table may come in any order;
* a last line `...` says that the command goes on: the reader turns to the next block. What the terminal prints afterwards is at the beginning of its
  next block. There, `^C` alone is the key;
* a traceback, or a line that begins with `error:`, says that the command fails.

Other blocks are for reading only.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.builders.doc_pages import CodeBlock, code_blocks
from tests.builders.waiting import TIMEOUT_S, wait_until

_PROMPT = "$ "
_CTRL_C = "^C"
_ANYTHING = "..."
# What a job says of itself where there is no terminal: the pages leave it out.
_PROGRESS = re.compile(
    r"^job '[^\n]*' (?:\([0-9a-f]{32}\) starts |is on the page |[a-z]+ after [\d.]+ s: )[^\n]*\n",
    re.MULTILINE,
)
_INSERTED = re.compile(r"(?:^\| \+I \|.*\n)+", re.MULTILINE)
_KILLED = "Killed\n"
_SHOWN_FAILURE = re.compile(r"^(error: |Traceback |FAILED |=+ .*\bfailed\b|Killed$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """What the reader types, which may be nothing, and what the terminal shows then."""

    typed: str
    shown: str

    @property
    def goes_on(self) -> bool:
        """Whether the command still runs when all of that was shown."""
        return f"\n{self.shown}".rstrip().endswith(f"\n{_ANYTHING}") and not self.fails

    @property
    def fails(self) -> bool:
        """Whether the page shows that the command fails."""
        return bool(_SHOWN_FAILURE.search(self.shown))


def steps(block: str) -> Iterator[Step]:
    r"""Yield the steps of a terminal's block.

    >>> list(steps("$ a \\\n  b\nc\n$ d\n"))
    [Step(typed='a \\\n  b', shown='c\n'), Step(typed='d', shown='')]
    >>> list(steps("x\n^C\ny\n"))
    [Step(typed='', shown='x\n'), Step(typed='^C', shown='y\n')]
    """
    typed: list[str] = []
    shown: list[str] = []
    for line in block.splitlines(keepends=True):
        is_typed = line.startswith(_PROMPT) or line.strip() == _CTRL_C
        if is_typed:
            if typed or shown:
                yield Step("".join(typed).rstrip(), "".join(shown))
            typed, shown = [line.removeprefix(_PROMPT)], []
        elif typed and not shown and typed[-1].endswith("\\\n"):
            typed.append(line)
        else:
            shown.append(line)
    if typed or shown:
        yield Step("".join(typed).rstrip(), "".join(shown))


def matcher(shown: str, *, complete: bool) -> re.Pattern[str]:
    r"""Return what matches an output that a page shows: all of it, or its beginning.

    >>> bool(matcher("a ... c\n", complete=True).fullmatch("a b c\n"))
    True
    >>> bool(matcher("a\n...\nz\n", complete=True).fullmatch("a\nz\n"))
    True
    >>> bool(matcher("a\n...\n", complete=False).fullmatch("a\nb"))
    True
    """
    text = "\n".join(line.rstrip() for line in in_order(shown).strip("\n").splitlines())
    pattern = re.escape(text).replace(re.escape(_ANYTHING) + "\\\n", "(?:.*\n)?")
    pattern = pattern.replace(re.escape(_ANYTHING), ".*")
    if not complete:
        pattern = pattern.removesuffix("\\\n.*") + "(?:\n.*)?"
    pattern = pattern.replace("\\\n", " *\n")
    return re.compile(f"\\s*{pattern}\\s*", re.DOTALL)


def in_order(output: str) -> str:
    r"""Sort neighbouring rows of tables that are inserted.

    >>> in_order("| +I | b |\n| +I | a |\n| -U | b |\n")
    '| +I | a |\n| +I | b |\n| -U | b |\n'
    """
    return _INSERTED.sub(lambda rows: "".join(sorted(rows[0].splitlines(keepends=True))), output)


class _Terminal:
    """Commands of one terminal, one after another."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory, self._environment = directory, environment
        self._running: subprocess.Popen[bytes] | None = None
        self._output: Path | None = None
        self._seen = 0
        self._command = ""

    def do(self, step: Step) -> None:
        """Type something, and wait for what is shown."""
        if step.typed == _CTRL_C:
            assert self._running is not None, "nothing runs that Ctrl-C could end"
            assert self._running.poll() is None, f"$ {self._command}\nhas ended before Ctrl-C"
            os.killpg(self._running.pid, signal.SIGINT)
        elif step.typed:
            self.finish()
            self._start(step.typed)
        if step.goes_on:
            expected = matcher(step.shown, complete=False)
            wait_until(lambda: expected.fullmatch(self._printed()) or self._ended(), step.shown)
        else:
            self._wait()
            expected = matcher(step.shown, complete=True)
        printed = self._printed()
        assert expected.fullmatch(printed), (
            f"$ {self._command}\n--- the page shows\n{step.shown}\n--- it prints\n{printed}"
        )
        self._seen += len(printed)
        if step.typed == _CTRL_C:
            self._running = None
        elif not step.goes_on:
            self._check_exit(fails=step.fails)

    def finish(self) -> None:
        """Wait for the end of a command of which the page has shown the beginning."""
        if self._running is not None:
            self._wait()
            self._check_exit(fails=False)

    def close(self) -> None:
        """End what still runs."""
        if self._running is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._running.pid, signal.SIGKILL)
            self._running.wait()

    def _start(self, command: str) -> None:
        handle, name = tempfile.mkstemp(prefix="terminal")
        self._command, self._output, self._seen = command, Path(name), 0
        self._running = subprocess.Popen(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=subprocess.STDOUT,
            env=self._environment,
            cwd=self._directory,
            start_new_session=True,
            preexec_fn=_take_ctrl_c,
        )
        os.close(handle)

    def _wait(self) -> None:
        if self._running is not None:
            self._running.wait(TIMEOUT_S)

    def _ended(self) -> bool:
        return self._running is None or self._running.poll() is not None

    def _printed(self) -> str:
        if self._output is None:
            return ""
        text = _PROGRESS.sub("", self._output.read_text(errors="replace"))
        if self._running is not None and self._running.poll() == -signal.SIGKILL:
            text += _KILLED  # which the reader's shell says
        return in_order(text[self._seen :])

    def _check_exit(self, *, fails: bool) -> None:
        if self._running is not None:
            code, self._running = self._running.returncode, None
            assert (code != 0) == fails, f"$ {self._command}\nends with exit code {code}"


def _take_ctrl_c() -> None:
    """Let Ctrl-C end the command, also if what runs the tests ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Reader:
    """Follows a page in a directory of its own. `replaced` are texts of the page and what the test has in their place, such as addresses.

    `environment` are variables that the commands get.
    """

    def __init__(
        self,
        directory: Path,
        replaced: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._directory = directory / "reader"
        self._directory.mkdir()
        self._replaced = dict(replaced or {})
        unset = {"PYTHONPATH", "PENSTOCK_TOKEN", "PENSTOCK_CONFIG"}
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in unset},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PENSTOCK_HOME": str(directory / "home"),
            **(environment or {}),
        }
        self._terminals: dict[str, _Terminal] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for terminal in self._terminals.values():
            terminal.close()

    def follow(self, page: str) -> None:
        """Do all that a page says, in its order."""
        for given, real in self._replaced.items():
            assert given in page, f"the page has no {given!r}"
            page = page.replace(given, real)
        for block in code_blocks(page):
            if block.language == "console":
                self._type(block)
            elif block.title:
                self._save(block)
        for terminal in self._terminals.values():
            terminal.finish()

    def _save(self, block: CodeBlock) -> None:
        file = self._directory / block.title
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text)

    def _type(self, block: CodeBlock) -> None:
        terminal = self._terminals.setdefault(
            block.title, _Terminal(self._directory, self._environment)
        )
        for step in steps(block.text):
            terminal.do(step)
