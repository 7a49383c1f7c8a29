"""Ctrl-C is heard by who waits, whatever else has taken the signal."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Libraries that take SIGINT, as Polars does, have waits be resumed behind it.
PROGRAM = """
import os, signal, sys, threading, time
from penstock.common.completable_future import CompletableFuture
from penstock.connectors.base.collect_buffer import CollectBuffer

signal.siginterrupt(signal.SIGINT, False)
main = threading.main_thread()

def names(frame):
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back

def press():
    while not {{"wait", {name!r}}} <= set(names(sys._current_frames()[main.ident])):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=press, daemon=True).start()
try:
    {wait}.{name}()
except KeyboardInterrupt:
    print("heard")
"""


@pytest.mark.parametrize(
    ("wait", "name"),
    [
        ("CollectBuffer()", "take"),
        ("CompletableFuture()", "result"),
        ("CompletableFuture()", "exception"),
    ],
)
def test_ctrl_c_ends_a_wait_without_an_end(wait: str, name: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(wait=wait, name=name)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.stdout == "heard\n", found.stderr
