"""How much the suite has done to jobs on Spark. The table at the end of the test run has the details."""

from __future__ import annotations

import pytest
from fault_log import KillLog

from tests.builders.modes import PIPELINED, SOAKS, WAYS

KINDS = (
    "clock jumps",
    "disk full",
    "driver exits",
    "driver killed",
    "driver stopped",
    "exception",
    "executor killed",
    "records again",
    "second driver",
    "splits again",
    "worker killed",
    "write fails",
)
# What does not interrupt the job in pipelined mode.
ABSORBED = ("records again", "second driver", "splits again", "write fails")


def test_a_run_of_the_whole_suite_strikes_each_way_with_each_fault_and_loses_nothing(
    kill_log: KillLog, whole_suite: bool
) -> None:
    if not whole_suite:
        pytest.skip("only a part of the suite was selected")
    assert kill_log.missing(KINDS, map(str, WAYS)) == []
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
