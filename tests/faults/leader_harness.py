"""Several processes that run the ledger job, of which one leads: they are killed and paused, and what they leave is judged."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fault_harness import TIMEOUT_S, LedgerRun

from penstock.jobmanager.high_availability.election import LeaderElection
from penstock.jobmanager.high_availability.services import HighAvailability
from penstock.options.configuration import Configuration
from tests.builders.fake_kubernetes import FakeKubernetes
from tests.builders.modes import Way
from tests.connectors.conftest import serving
from tools.servers.zookeeper import ZooKeeperServer

SERVICES = ("storage", "zookeeper", "kubernetes")


@contextmanager
def elected_by(service: str, directory: Path) -> Iterator[dict[str, str]]:
    """Start what elects leaders; the options of those who take part."""
    options = {
        "high-availability.type": service,
        "high-availability.storageDir": str(directory / "shared"),
        "high-availability.cluster-id": "ledger",
    }
    if service == "storage":
        yield {**options, "penstock.high-availability.storage.lease-duration": "3s"}
    elif service == "zookeeper":
        with serving(ZooKeeperServer) as server:
            yield {
                **options,
                "high-availability.zookeeper.quorum": server.quorum,
                "high-availability.zookeeper.client.session-timeout": "3s",
            }
    else:
        directory.mkdir(parents=True, exist_ok=True)
        cluster = FakeKubernetes()
        prefix = "high-availability.kubernetes.leader-election."
        yield {
            **options,
            "kubernetes.config.file": cluster.write_config(directory / "kubeconfig"),
            prefix + "lease-duration": "3s",
            prefix + "renew-deadline": "2400ms",
            prefix + "retry-period": "400ms",
        }
        cluster.close()


class LeaderRun(LedgerRun):
    """One job, and at any time two or more processes that would run it."""

    members = 2

    def __init__(
        self, directory: Path, log: Any, *, service: Mapping[str, str], way: Way, **options: Any
    ) -> None:
        super().__init__(directory, log, way=way, **options)
        self.service = dict(service)
        self.living: dict[int, subprocess.Popen[bytes]] = {}
        self.paused: dict[int, float] = {}  # by pid, since when
        self._election: LeaderElection | None = None

    def job_options(self) -> dict[str, str]:
        return {**super().job_options(), **self.service}

    def fill_up(self) -> None:
        """Start processes until there are enough that are not paused."""
        while len(self.living) - len(self.paused) < self.members:
            home = {"PENSTOCK_HOME": str(self.directory / "home")}
            process = self._launch(self._output, (), home)
            self.living[process.pid] = process
        self.driver = next(iter(self.living.values()))

    @property
    def is_running(self) -> bool:
        return any(process.poll() is None for process in self.living.values())

    def leader(self) -> int | None:
        """The process that leads, as the service tells."""
        if self._election is None:
            configuration = Configuration()
            for key, value in self.service.items():
                configuration.set_string(key, value)
            services = HighAvailability.from_configuration(configuration)
            assert services is not None
            self._election = services.create_election()
        found = self._election.leader()
        return None if found is None else int(found.id.split("-")[-2])

    def wait_for_standbys(self) -> None:
        """Wait until all processes that are not paused answer clients: then they take part in the election."""
        self.wait_until(lambda: self.living.keys() - self.paused.keys() <= self._answering())

    def _answering(self) -> set[int]:
        records = (self.directory / "home" / "processes").glob("*.json")
        return {int(path.name.partition("-")[0]) for path in records}

    def working_leader(self, after: int) -> int:
        """Wait for a checkpoint after `after` of a leader that is not paused; return its process."""
        self.wait_until(lambda: self.checkpoint_id() > after and self._at_work() is not None)
        found = self._at_work()
        assert found is not None
        return found

    def _at_work(self) -> int | None:
        found = self.leader()
        return found if found in self.living and found not in self.paused else None

    def kill_leader(self, pid: int) -> None:
        process = self.living.pop(pid)
        process.kill()
        process.wait()
        self.strike("leader killed")

    def end_leader(self, pid: int) -> None:
        """Let it end in order: it gives up its place."""
        process = self.living.pop(pid)
        process.terminate()
        assert process.wait(TIMEOUT_S) == 128 + signal.SIGTERM, self.story()
        self.strike("leader ends")

    def pause_leader(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        self.paused[pid] = time.monotonic()
        self.strike("leader paused")

    def wake(self, pid: int) -> None:
        """Let a paused process go on, and see that it becomes a standby."""
        del self.paused[pid]
        os.kill(pid, signal.SIGCONT)

    def wait_for_all(self) -> None:
        """Wait until all processes have ended, each with the job's result."""
        for pid in list(self.paused):
            self.wake(pid)
        self.wait_until(lambda: not self.is_running, or_end=False)
        codes = [process.returncode for process in self.living.values()]
        assert codes == [0] * len(codes), self.story()
        if self._election is not None:
            self._election.close()

    def unnamed_checkpoint_files(self) -> list[str]:
        # The mark of the last leader stays: those that were before it must find it. A leader that was paused while it wrote a record of
        # the journal writes it to the end when it wakes.
        found = super().unnamed_checkpoint_files()
        return [name for name in found if not name.startswith(("leader/", "journal/"))]
