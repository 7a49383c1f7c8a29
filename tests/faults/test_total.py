"""How much the suite has done to jobs on Spark. The table at the end of the test run has the details."""

from __future__ import annotations

import pytest
from fault_log import KillLog

from tests.builders.modes import PIPELINED, SOAKS, SOME_WAYS, WAYS

KINDS = (
    "driver exits",
    "driver killed",
    "exception",
    "records again",
    "splits again",
    "worker killed",
)
# Each mode and each backend once.
SLOW_KINDS = (
    "clock jumps",
    "disk full",
    "driver stopped",
    "executor killed",
    "second driver",
    "write fails",
)
# What does not interrupt the job where records flow.
ABSORBED = ("records again", "second driver", "splits again", "write fails")


def test_the_suite_struck_at_least_a_hundred_times_and_nothing_was_lost(kill_log: KillLog) -> None:
    missing = kill_log.missing(KINDS, map(str, WAYS))
    if missing := missing + kill_log.missing(SLOW_KINDS, map(str, SOME_WAYS)):
        pytest.skip(f"only a part of the suite ran: no {', '.join(missing)}")
    # Those that storage and the restart strategy deal with by themselves are not among them.
    absorbed = kill_log.count("exception", "splits again", "write fails")
    redelivered = kill_log.count("records again")
    assert kill_log.count() - absorbed - redelivered >= 100, "\n".join(kill_log.table())
    assert absorbed >= 100, "\n".join(kill_log.table())
    assert redelivered >= 50, "\n".join(kill_log.table())
    flowing = sum(
        PIPELINED in fault.way and fault.kind not in ABSORBED for fault in kill_log.faults
    )
    assert flowing >= (300 if SOAKS else 80), "\n".join(kill_log.table())
    assert all(fault.lost == fault.duplicated == 0 for fault in kill_log.faults)
