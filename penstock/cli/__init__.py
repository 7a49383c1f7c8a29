"""The command line: `penstock run job.py` and its relatives."""

from __future__ import annotations

from penstock.cli.main import main

__all__ = ["main"]
