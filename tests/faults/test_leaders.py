"""Leaders that are killed and paused: a standby goes on with the job, nothing is lost and nothing comes twice.

With PENSTOCK_SOAK=1, on a machine that has nothing else to do, there are more than 30 kills and pauses with each service, and a standby
goes on within 10 s.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fault_harness import NewRun, computed, judge
from leader_harness import SERVICES, LeaderRun, elected_by

from tests.builders.modes import SOAKS, WAYS, Way

STRIKES = 40  # of which some are leaders that end in order
# Without the soak, by service: what is done to leaders, one after another
FEW = {"storage": ("kill", "pause"), "zookeeper": ("pause",), "kubernetes": ("kill", "end")}
RECORDS = 6_000 if SOAKS else 900
WITHIN_S = 10.0
# One way each, two in the soak
PAIRS = [
    pytest.param(service, way, id=f"{service}-{way}")
    for number, service in enumerate(SERVICES)
    for place, way in enumerate(WAYS)
    if place == number or (SOAKS and place == number + len(SERVICES))
]


@pytest.mark.timeout(1800 if SOAKS else 900)
@pytest.mark.parametrize(("service", "way"), PAIRS)
def test_a_standby_goes_on_when_the_leader_is_killed_or_paused(
    service: str, way: Way, new_run: NewRun, rng: random.Random, seed: str, tmp_path: Path
) -> None:
    with elected_by(service, tmp_path / "run") as options:
        run: LeaderRun = new_run(LeaderRun, service=options, way=way, threads=True, records=RECORDS)
        with run.without_end():
            run.fill_up()
            strikes = (
                rng.choices(("kill", "pause", "end"), (9, 9, 2), k=STRIKES)
                if SOAKS
                else FEW[service]
            )
            for strike in strikes:
                run.wait_for_standbys()
                leader = run.working_leader(run.checkpoint_id() + rng.randint(0, 3))
                {"kill": run.kill_leader, "pause": run.pause_leader, "end": run.end_leader}[strike](
                    leader
                )
                run.fill_up()
                other = run.working_leader(run.checkpoint_id())
                assert other != leader
                taken = run.faults[-1].recovery_s
                assert taken is not None
                assert taken < WITHIN_S or not SOAKS, run.story()
                if strike == "pause":
                    before = run.checkpoint_id()
                    run.wake(leader)
                    run.working_leader(before)  # the job goes on with either leader
        run.wait_for_all()
        judge(run, computed(run.records), seed)
