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
    monkeypatch.setenv("PROMPT_TOOLKIT_NO_CPR", "1")  # nobody tells where the cursor is
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
