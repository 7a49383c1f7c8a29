"""The reader of tutorials finds what is wrong with a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.tutorials import Reader

GOES_ON = """
```console title="One"
$ echo first; cat fifo; echo last
first
...
```

```console title="Two"
$ echo second > fifo
```

```console title="One"
second
last
```
"""


def follow(page: str, directory: Path) -> None:
    with Reader(directory) as reader:
        reader.follow(page)


def console(*lines: str) -> str:
    return "\n".join(["```console", *lines, "```", ""])


def test_files_are_saved_and_commands_run_in_one_directory(tmp_path: Path) -> None:
    page = '```text title="a/b.txt"\nhello\n```\n' + console("$ cat a/b.txt", "hello")
    follow(page, tmp_path)


def test_a_command_that_goes_on_is_left_running_while_another_one_is_typed(tmp_path: Path) -> None:
    follow(console("$ mkfifo fifo") + GOES_ON, tmp_path)


def test_ctrl_c_ends_a_command(tmp_path: Path) -> None:
    follow(console("$ echo on; exec tail -f /dev/null", "on", "...", "^C"), tmp_path)


def test_rows_that_are_inserted_come_in_any_order(tmp_path: Path) -> None:
    rows = ["| +I | b |", "| +I | a |"]
    follow(console(f"$ printf '%s\\n' '{rows[1]}' '{rows[0]}'", *rows), tmp_path)


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (console("$ echo 1", "2"), "it prints"),
        (console("$ echo 1; echo 2", "1"), "it prints"),
        (console("$ true", "1"), "it prints"),
        (console("$ echo 1; false", "1"), "exit code 1"),
        (console("$ echo 1; exit 3", "1", "..."), "exit code 3"),
        (console("$ echo 'error: x'", "error: x"), "exit code 0"),
        (console("^C"), "nothing runs"),
        (console("$ echo 1; exit 3", "1", "...", "^C"), "ended|nothing"),
    ],
)
def test_what_a_page_shows_wrongly_is_found(page: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=message):
        follow(page, tmp_path)


def test_a_text_that_is_to_be_replaced_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="localhost"):
        Reader(tmp_path, {"localhost": "other"}).follow("no address")
