"""The command line: `penstock run job.py` and the other commands."""

from __future__ import annotations

from penstock.cli.main import main

__all__ = ["main"]
