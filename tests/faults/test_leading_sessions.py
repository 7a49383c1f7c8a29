"""A session of several JobManagers: the one that leads is killed and paused, its job goes on, and its client gets the result."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from fault_harness import ROOT, TIMEOUT_S, NewRun, computed, judge
from leader_harness import LeaderRun, elected_by

from tests.builders.modes import SOAKS, WAYS

STRIKES = ("kill", "pause") * 8 if SOAKS else ("pause",)
WITHIN_S = 10.0


class SessionRun(LeaderRun):
    """JobManagers of one session, and a client that has sent them the ledger job."""

    def _launch(
        self, log: Path, faults: Iterable[tuple[str, int, str]], more: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        settings = [f"-D{key}={value}" for key, value in self.service.items()]
        return self._run(["session", "start", "--foreground", "--no-spark", *settings], log, more)

    def send(self, log: Path) -> subprocess.Popen[bytes]:
        """Send the job, and wait for it."""
        options = {"directory": str(self.directory), "way": self.way.options, **self.options}
        home = {"PENSTOCK_HOME": str(self.directory / "home")}
        return self._run(["run", "--session", str(self.script), json.dumps(options)], log, home)

    def _run(self, words: list[str], log: Path, more: Mapping[str, str]) -> subprocess.Popen[bytes]:
        self.directory.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "penstock", *words],
                env={**os.environ, "PYTHONPATH": str(ROOT), **self.tagged(), **more},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def end_sessions(self) -> None:
        """End all JobManagers in order."""
        self.wait_for_standbys()  # else one of them does not know yet what SIGTERM means
        for process in self.living.values():
            process.terminate()
        for process in self.living.values():
            assert process.wait(TIMEOUT_S) == 0, self.story()
        if self._election is not None:
            self._election.close()


@pytest.mark.timeout(1200 if SOAKS else 900)
def test_the_jobs_of_a_session_go_on_under_the_next_leader(
    new_run: NewRun, rng: random.Random, seed: str, tmp_path: Path
) -> None:
    records = 3_000 if SOAKS else 900
    with elected_by("storage", tmp_path / "run") as options:
        run: SessionRun = new_run(SessionRun, service=options, way=WAYS[0], records=records)
        with run.without_end():
            run.fill_up()
            run.wait_for_standbys()
            answers = tmp_path / "client.log"
            client = run.send(answers)
            for strike in STRIKES:
                run.wait_for_standbys()
                leader = run.working_leader(run.checkpoint_id() + rng.randint(0, 2))
                if strike == "pause":
                    run.pause_leader(leader)
                else:
                    run.kill_leader(leader)
                run.fill_up()
                assert run.working_leader(run.checkpoint_id()) != leader
                taken = run.faults[-1].recovery_s
                assert taken is not None
                assert taken < WITHIN_S or not SOAKS, run.story()
                if strike == "pause":
                    run.wake(leader)
        run.wait_until(lambda: client.poll() is not None)
        assert client.returncode == 0, answers.read_text() + run.story()
        run.end_sessions()
        judge(run, computed(run.records), seed)
