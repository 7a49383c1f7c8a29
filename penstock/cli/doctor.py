"""`penstock doctor`: what slows a running job down or puts it at risk, and how to fix it."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.jobs import add_job_command

if TYPE_CHECKING:
    from penstock.cli.jobs import Commands

_SEVERITIES: Final = ("ok", "info", "warning", "critical")
_WIDEST: Final = 120
_INDENT: Final = " " * 10


def add_commands(commands: Commands) -> None:
    """Add `penstock doctor` to the command line."""
    parser = add_job_command(
        commands,
        "doctor",
        _doctor,
        "find what slows a job down or puts it at risk, and how to fix it",
    )
    parser.add_argument("job", metavar="JOB", help="job id, id prefix or name")
    parser.add_argument(
        "--fail-on",
        choices=_SEVERITIES[1:],
        help="exit with code 1 if there is a finding of this severity or higher",
    )


def _doctor(given: argparse.Namespace) -> int:
    from penstock.cli.reach import find_jobs, select_job

    job = select_job(find_jobs(given.address, given.token), given.job)
    diagnosis = job.client.get(f"/penstock/jobs/{job.id}/diagnosis")
    if given.json:
        sys.stdout.write(json.dumps(diagnosis, ensure_ascii=False, indent=2) + "\n")
    else:
        sys.stdout.write(show(f"job '{job.name}' ({job.id})", diagnosis))
    if given.fail_on is None:
        return 0
    found = _SEVERITIES.index(diagnosis["health"])
    return 1 if found >= _SEVERITIES.index(given.fail_on) else 0


def show(title: str, diagnosis: Mapping[str, Any], width: int | None = None) -> str:
    """Return a diagnosis as text.

    >>> finding = {"severity": "info", "title": "state grows", "detail": "by 1 GB an hour", "hint": "let it expire"}
    >>> print(show("job 'a'", {"headline": "", "findings": [finding], "unknown": ["memory: no answer"]}, 60), end="")
    job 'a'
    <BLANKLINE>
    INFO      state grows
              by 1 GB an hour
              -> let it expire
    <BLANKLINE>
    not checked: memory: no answer
    """
    width = width or min(shutil.get_terminal_size().columns, _WIDEST)
    lines = [title]
    for finding in diagnosis["findings"]:
        lines.append("")
        lines += _wrapped(finding["title"], finding["severity"].upper().ljust(len(_INDENT)), width)
        lines += _wrapped(finding["detail"], _INDENT, width)
        lines += _wrapped(f"-> {finding['hint']}", _INDENT, width)
    if not diagnosis["findings"]:
        lines += ["", diagnosis["headline"]]
    for unknown in diagnosis["unknown"]:
        lines += ["", *_wrapped(f"not checked: {unknown}", "", width)]
    return "\n".join(lines) + "\n"


def _wrapped(text: str, first: str, width: int) -> list[str]:
    indent = " " * len(first)
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
    )
