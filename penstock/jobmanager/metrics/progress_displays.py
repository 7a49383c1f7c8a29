"""Chooses how the progress of a job is shown, by the options `penstock.progress` and `penstock.progress.checkpoints`."""

from __future__ import annotations

import sys
from collections.abc import Callable

from penstock import options
from penstock.jobmanager.metrics.line_progress import LineProgress, WhenServed, not_served
from penstock.jobmanager.metrics.progress import Progress, QuietProgress
from penstock.options.configuration import Configuration


def create_progress(
    name: str,
    configuration: Configuration,
    where: str,
    when_served: WhenServed = not_served,
) -> Progress:
    """Return a live table in a terminal, and lines elsewhere, unless the options say otherwise.

    `where` says what runs the job: "on Spark (local[2])". `when_served` tells the address of its page.
    """
    mode = configuration.get(options.PROGRESS)
    if mode == "never":
        return QuietProgress()
    checkpoints = configuration.get(options.PROGRESS_CHECKPOINTS)
    if mode == "always" or (mode == "auto" and sys.stderr.isatty()):
        from penstock.jobmanager.metrics.terminal_progress import TerminalProgress

        return TerminalProgress(name, where, checkpoints=checkpoints, when_served=when_served)
    return LineProgress(name, where, checkpoints=checkpoints, when_served=when_served)


def create_session_progress(
    name: str,
    configuration: Configuration,
    where: str,
    when_served: WhenServed,
    say: Callable[[str], None],
) -> Progress:
    """Return what says the lines of a job in a session, which its clients print."""
    if configuration.get(options.PROGRESS) == "never":
        return QuietProgress(say)
    checkpoints = configuration.get(options.PROGRESS_CHECKPOINTS)
    return LineProgress(name, where, checkpoints=checkpoints, when_served=when_served, say=say)
