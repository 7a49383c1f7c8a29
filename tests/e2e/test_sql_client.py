"""`penstock sql` in a real terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.builders.terminal import Terminal

ROOT = Path(__file__).parents[2]
SQL = [sys.executable, "-m", "penstock", "sql", "--no-spark"]
PROMPT = "Penstock SQL> "


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PENSTOCK_CONFIG", raising=False)
    monkeypatch.setenv("PROMPT_TOOLKIT_NO_CPR", "1")  # there is no terminal to report the cursor
    return tmp_path


def test_a_person_types_statements(home):
    with Terminal(SQL) as terminal:
        terminal.until(PROMPT)

        def typed(keys, wanted):
            seen = len(terminal.text)
            terminal.press(keys)
            terminal.until(wanted, seen)

        typed("SELEC 1;\r", "did you mean SELECT instead of SELEC?")
        typed("SET 'sql-client.execution.result-mode' = 'tableau';\r", "OK")
        typed("SELECT n * 2 AS twice\r", "->")  # no semicolon yet
        typed("FROM (VALUES (1), (2)) AS t(n);\r", "2 rows in set")
        assert "| +I |" in terminal.text
        typed("SELECT x FROM nowhere;\r", "nowhere")
        # A query without an end is shown as a live table until it is left.
        typed("SET 'sql-client.execution.result-mode' = 'table';\r", "OK")
        typed(
            "CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '50', "
            "'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1000000');\r",
            "OK",
        )
        typed("SELECT n, n + 1 AS next_one FROM ticks;\r", "next_one")
        terminal.until("30  31")
        typed("q", PROMPT)
        # So are its changes; Ctrl-C stops a query of lines, and not the client.
        typed("SET 'sql-client.execution.result-mode' = 'tableau';\r", "OK")
        typed("SELECT n FROM ticks;\r", "| +I |")
        typed("\x03", "stopped")
        typed("\x1b[A\r", "| +I |")  # what was typed last, once more
        typed("\x03", "stopped")
        terminal.press("\\q\r")
        assert terminal.end() == 0
    assert "Traceback" not in terminal.text
    history = (home / "home" / "sql_history").read_text()
    assert "SELECT n FROM ticks;" in history


TICKS = (
    "CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '50', "
    "'fields.n.min' = '1', 'fields.n.max' = '9');"
)


def test_ctrl_c_ends_the_wait_for_a_job_that_writes(home):
    statements = [TICKS, "CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole');"]
    insert = "INSERT INTO hole SELECT n FROM ticks WHERE n < 0;"
    with Terminal([*SQL, "-e", " ".join([*statements, insert])]) as terminal:
        terminal.until(" runs")
        terminal.press("\x03")
        assert terminal.end() == 1
    assert "Traceback" not in terminal.text


def test_what_was_typed_is_there_in_the_next_run_and_options_are_completed(home):
    with Terminal(SQL) as terminal:
        terminal.until(PROMPT)
        terminal.press(f"{TICKS}\r")
        terminal.until("OK")
        # Tab takes the only key and the only connector that fit, when they are offered.
        for typed, offered in (
            ("CREATE TABLE more (n INT) WITH ('conn", "connector"),
            ("' = 'black", "blackhole"),
        ):
            seen = len(terminal.text)
            terminal.press(typed)
            terminal.until(offered, seen)
            terminal.press("\t")
        seen = len(terminal.text)
        terminal.press("');\r")
        terminal.until(f"OK\n{PROMPT}", seen)
        terminal.press("\x04")
        assert terminal.end() == 0
    with Terminal(SQL) as terminal:
        terminal.until(PROMPT)
        terminal.press("\x1b[A\r")
        terminal.until("OK")
        terminal.press("SHOW CREATE TABLE more;\r")
        terminal.until("'connector' = 'blackhole'", len(terminal.text))
        terminal.press("\\q\r")
        assert terminal.end() == 0


def test_a_job_that_still_runs_is_asked_about(home):
    with Terminal(SQL) as terminal:
        terminal.until(PROMPT)
        for statement in (TICKS, "CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole');"):
            seen = len(terminal.text)
            terminal.press(f"{statement}\r")
            terminal.until("OK", seen)
        terminal.press("INSERT INTO hole SELECT n FROM ticks;\r")
        terminal.until(" runs")
        terminal.press("\\q\r")
        terminal.until("1 job runs in this process and would be cancelled. Quit? [y/N]")
        seen = len(terminal.text)
        terminal.press("n\r")
        terminal.until(PROMPT, seen)
        terminal.press("SHOW JOBS;\r")
        terminal.until("RUNNING", seen)
        seen = len(terminal.text)
        terminal.press("\\q\r")
        terminal.until("Leave?", seen)
        terminal.press("y\r")
        assert terminal.end() == 0
    assert "Traceback" not in terminal.text
