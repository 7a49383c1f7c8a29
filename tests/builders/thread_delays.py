"""Simulates a busy machine: threads begin to run later than they were started.

`--delay-threads SECONDS` makes each thread sleep for up to that long before it runs, if Penstock or a test started it. Other threads,
such as those of pytest, are left alone, and of a test that starts hundreds of threads, most are. How long each one sleeps depends on the name of the test and on the order in which its threads
start, so that a test that fails does so again. `PENSTOCK_DELAY_SEED` chooses other delays.
"""

from __future__ import annotations

import os
import random
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

#: Where Penstock and the tests are. Other packages are in a hidden directory, or elsewhere.
_ROOT = f"{Path(__file__).parents[2]}{os.sep}"
_MANY = 20  # threads of a test; of more than that, some are not delayed
#: Thread pools and servers of the standard library start threads for the code that calls them.
_STANDARD_LIBRARY = (sysconfig.get_path("stdlib"), "<frozen")


class ThreadDelays:
    """A pytest plugin that delays threads. The test that runs decides on the delays."""

    def __init__(self, seconds: float, seed: str) -> None:
        self._seconds = seconds
        self._seed = seed
        self._random = random.Random(seed)
        self._threads = 0  # of the test that runs
        self._start: Callable[[threading.Thread], None] | None = None

    def pytest_configure(self) -> None:
        """Delay threads from now on."""
        start = self._start = threading.Thread.start

        def start_delayed(thread: threading.Thread) -> None:
            if _is_ours():
                self.delay(thread)
            start(thread)

        threading.Thread.start = start_delayed  # type: ignore[method-assign, assignment]

    def pytest_unconfigure(self) -> None:
        """Delay no more threads."""
        if self._start is not None:
            threading.Thread.start = self._start  # type: ignore[method-assign, assignment]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin the delays of a test: they do not depend on the tests before it."""
        self._random = random.Random(f"{self._seed} {item.nodeid}")
        self._threads = 0

    def delay(self, thread: threading.Thread) -> None:
        """Let a thread that has not started sleep before it runs."""
        seconds = self._random.uniform(0, self._seconds)
        self._threads += 1
        if self._random.random() * self._threads > _MANY:
            return
        run = thread.run

        def run_later() -> None:
            time.sleep(seconds)
            run()

        thread.run = run_later  # type: ignore[method-assign]


def _is_ours() -> bool:
    """Whether Penstock or a test is about to start a thread, itself or by the standard library."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_STANDARD_LIBRARY):
        frame = frame.f_back
    name = frame.f_code.co_filename
    return name.startswith(_ROOT) and not name.startswith(f"{_ROOT}.")


def add_option(parser: pytest.Parser) -> None:
    """Add `--delay-threads`."""
    parser.addoption(
        "--delay-threads",
        metavar="SECONDS",
        type=float,
        default=0.0,
        help="threads of Penstock and of tests sleep for up to that long before they run, as on a busy machine",
    )


def register(config: pytest.Config) -> None:
    """Delay threads if the command line says so."""
    seconds = config.getoption("--delay-threads")
    if seconds < 0:
        raise pytest.UsageError(f"--delay-threads is negative: {seconds:g}")
    if seconds:
        delays = ThreadDelays(seconds, os.environ.get("PENSTOCK_DELAY_SEED", ""))
        config.pluginmanager.register(delays, "thread-delays")
