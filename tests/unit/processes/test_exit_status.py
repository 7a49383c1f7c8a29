"""What is known of a program's end while Python ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

SHOW = """
import atexit, sys
from penstock.processes.exit_status import expected_exit_code, note_exit_code
atexit.register(lambda: print("expected", expected_exit_code()))
"""


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("", 0),
        ("raise ValueError('7')", 1),
        ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    pass", 0),
        ("note_exit_code(2); sys.exit(2)", 2),
        ("note_exit_code(0)", 0),
    ],
    ids=["it ends", "it raises", "it catches", "the command fails", "the command succeeds"],
)
def test_an_end_is_known_while_python_ends(program: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW + program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == (f"expected {code}\n", code)
