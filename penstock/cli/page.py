"""`penstock page`: the address of a job on the web page."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli.jobs import add_job_command

if TYPE_CHECKING:
    from penstock.cli.jobs import Commands


def add_commands(commands: Commands) -> None:
    """Add `page`."""
    parser = add_job_command(
        commands,
        "page",
        _page,
        "print the address of a job's web page, with a token that logs in",
    )
    parser.add_argument("job", metavar="JOB", help="job id, id prefix or name")
    parser.add_argument("--open", action="store_true", help="also open it in a browser")


def _page(given: argparse.Namespace) -> int:
    import webbrowser

    from penstock.cli.output import print_json, print_line
    from penstock.cli.reach import find_jobs, select_job

    job = select_job(find_jobs(given.address, given.token), given.job)
    address = job.client.page_address(job.path)
    if given.json:
        print_json({"id": job.id, "address": address})
    else:
        print_line(address)
    if given.open:
        webbrowser.open(address)
    return 0
