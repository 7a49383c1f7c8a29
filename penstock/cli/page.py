"""`penstock page`: where the web page shows a job."""

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
        "print the address of the web page of a job, which logs in who opens it",
    )
    parser.add_argument("job", metavar="JOB", help="the job")
    parser.add_argument("--open", action="store_true", help="open it in a browser, too")


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
