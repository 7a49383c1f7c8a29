"""What a flood of requests costs the job that they are about.

    python -m benchmarks.rest_load --rounds 8 --seconds 6 --clients 50

A keyed job runs on Spark, `local[2]`, pipelined, as fast as it can. In turns no client and many clients use its REST API, each as
soon as it has its answer; which of the two comes first changes from round to round. The result is the records per second in both, as the
subtasks report them, and the median of the ratios of the rounds; and which part of a processor the driver took, which says it also
on a machine that is busy with other things: subtasks are in processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from penstock.rest.client.rest_client import RestClient
from tests.builders.flood import flood

JOB = """
import sys
from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource
options = {
    "spark.master": "local[2]", "spark.ui.enabled": "false", "penstock.execution.mode": "pipelined",
    "execution.checkpointing.interval": "5 s", "execution.checkpointing.dir": sys.argv[1] + "/checkpoints",
    "parallelism.default": "2", "penstock.progress": "never",
}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
numbers = env.from_source(DataGeneratorSource(lambda i: i), WatermarkStrategy.no_watermarks(), "numbers")
numbers.key_by(lambda n: n % 1000).reduce(lambda a, b: a + b).filter(lambda _: False).print()
env.execute("flooded")
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rest_load", description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--work", type=Path, default=Path(__file__).parent / ".work" / "rest_load")
    parser.add_argument(
        "--no-spark", action="store_true", help="in one process, whose lock the server takes, too"
    )
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    result = measure(given.work, given.rounds, given.seconds, given.clients, not given.no_spark)
    print(json.dumps(result, indent=1))


def measure(
    work: Path, rounds: int, seconds: float, clients: int, spark: bool = True
) -> dict[str, object]:
    """Run the job, and ask it in turns."""
    home = {**os.environ, "PENSTOCK_HOME": str(work / "home")}
    program = work / "flooded.py"
    program.write_text(JOB)
    way = [] if spark else ["--no-spark"]
    command = [sys.executable, "-m", "penstock", "run", *way, str(program), str(work)]
    child = subprocess.Popen(command, env=home)
    try:
        os.environ["PENSTOCK_HOME"] = home["PENSTOCK_HOME"]
        watched = Watched(child.pid)
        pairs, answers = [], 0
        shares: dict[bool, list[float]] = {False: [], True: []}
        for number in range(rounds):
            found = {}
            for flooded in (True, False) if number % 2 else (False, True):
                took, started = processor_s(child.pid), time.monotonic()
                found[flooded], answered = watched.window(seconds, clients if flooded else 0)
                answers += answered
                took = processor_s(child.pid) - took
                shares[flooded].append(took / (time.monotonic() - started))
            pairs.append((found[False], found[True]))
        return {
            "quiet records/s": round(statistics.median(quiet for quiet, _ in pairs)),
            "flooded records/s": round(statistics.median(flooded for _, flooded in pairs)),
            "median of the ratios": round(statistics.median(f / q for q, f in pairs), 3),
            "ratios": [round(flooded / quiet, 3) for quiet, flooded in pairs],
            "driver's share of a processor, quiet": round(statistics.median(shares[False]), 3),
            "driver's share of a processor, flooded": round(statistics.median(shares[True]), 3),
            "answers/s": round(answers / (rounds * seconds)),
            "clients": clients,
        }
    finally:
        child.terminate()
        child.wait()


def processor_s(pid: int) -> float:
    """Return what a process has worked so far, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Watched:
    """The job, seen through its REST API."""

    def __init__(self, pid: int) -> None:
        from penstock.rest import processes

        while not (found := [each for each in processes.read_all() if each.pid == pid]):
            time.sleep(0.1)
        self._client = RestClient(found[0].address, found[0].token)
        while not (jobs := self._client.get("/jobs/overview")["jobs"]):
            time.sleep(0.1)
        self._job = f"/jobs/{jobs[0]['jid']}"
        while self._client.get(f"{self._job}/status")["status"] != "RUNNING":
            time.sleep(0.1)
        self._vertex = self._client.get(self._job)["vertices"][0]["id"]
        while not self._records():
            time.sleep(0.1)
        time.sleep(8)  # until it is warm

    def _records(self) -> float:
        path = f"{self._job}/vertices/{self._vertex}/subtasks/metrics?get=numRecordsOut&agg=sum"
        return float(next((each["sum"] for each in self._client.get(path)), 0))

    def window(self, seconds: float, clients: int) -> tuple[float, int]:
        """Return the records per second while so many clients ask, and how many answers they got."""
        self._next_report()
        before, started = self._records(), time.monotonic()
        answered = 0
        if clients:
            job = f"/v1{self._job}"
            paths = [
                "/v1/jobs/overview",
                job,
                f"{job}/vertices/{self._vertex}",
                f"{job}/checkpoints",
            ]
            answers = asyncio.run(
                flood(self._client.host, self._client.port, paths, clients, seconds)
            )
            answered = sum(answers.values())
        else:
            time.sleep(seconds)
        self._next_report()
        return (self._records() - before) / (time.monotonic() - started), answered

    def _next_report(self) -> None:
        """Wait for the moment when subtasks report, which they do once a second."""
        known = self._records()
        while self._records() == known:
            time.sleep(0.05)


if __name__ == "__main__":
    main()
