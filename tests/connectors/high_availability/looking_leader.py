"""A candidate in a process of its own, which can be stopped: it prints what it believes, and when it looked.

The clock is that of the machine, the same in all processes.
"""

from __future__ import annotations

import json
import sys
import time
from typing import NamedTuple

from penstock.jobmanager.high_availability.election import Candidate
from tests.builders.contenders import Recorder
from tests.connectors.high_availability.conftest import election


class Look(NamedTuple):
    """When it was about to look, and the token that it then had, 0 for none."""

    at: int
    token: int


def main(options: dict[str, str]) -> None:
    """Take part until it is killed."""
    here = election(options)
    here.start(Candidate.here("127.0.0.1:1"), Recorder())
    while True:
        at = time.monotonic_ns()
        print(at, here.token or 0, flush=True)
        time.sleep(0.01)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
