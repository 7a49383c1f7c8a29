"""A job in processes of its own, which are killed at a step of its checkpoints."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from penstock.connectors.base.sink import Sink
from penstock.connectors.base.source import Source
from penstock.pickling import cloudpickling
from penstock.testing.conformance.rules import broken

# After prepare_commit; between the checkpoint and its commit; after a commit that was not recorded.
KILLS = ("before write_manifest", "before commit_sink", "after commit_sink")
# Of a sink that commits nothing.
UNCOMMITTED = ("before write_manifest", "after write_manifest")
_OCCURRENCE = 2
_JOB_ID = "c0" * 16


@dataclass
class KilledJob:
    """A program that another process runs."""

    # Whether it may be over before the last of its drivers was to be killed: its input has its own pace.
    may_end_early: ClassVar[bool] = False

    mode: str
    directory: str
    # Whether this is the first driver, which must not come to the end.
    is_first: bool = field(default=True, init=False)

    def build(self, env: Any) -> None:
        """Add the program to an environment."""
        raise NotImplementedError

    def run(self, env: Any) -> None:
        """Run it to its end."""
        env.execute("conformance")


@dataclass
class ReadingJob(KilledJob):
    """Reads the source under test into a folder. Without an end, it is cancelled when `count` records are there."""

    may_end_early = True

    source: Source = field(kw_only=True)
    shelf: Any = field(kw_only=True)
    bounded: bool = field(kw_only=True)
    count: int = field(default=0, init=False)

    def build(self, env: Any) -> None:
        """Read into the folder."""
        from penstock.testing.conformance.jobs import reads
        from penstock.testing.conformance.taps import Tap, tapped_source

        slow = Tap("killed", pause_s=0.02, batch_size=3)
        if self.is_first:
            slow.allowance = self.count // 2
        reads(env, tapped_source(self.source, slow)).sink_to(self.shelf).uid("sink")

    def run(self, env: Any) -> None:
        """Run it until all records are there."""
        if self.bounded:
            env.execute("conformance")
            return
        client = env.execute_async("conformance")
        result = client.get_job_execution_result()
        while len(self.shelf.records()) < self.count and not result.done():
            time.sleep(0.02)
        time.sleep(0.15)  # for what should not come
        client.cancel().result(10)


@dataclass
class WritingJob(KilledJob):
    """Writes records to the sink under test."""

    sink: Sink = field(kw_only=True)
    records: list[Any] = field(kw_only=True)

    def build(self, env: Any) -> None:
        """Write from the kit's own source."""
        from penstock.testing.conformance.jobs import ScriptedSource, reads

        # Each checkpoint has records, and so a commit to be killed at.
        reads(env, ScriptedSource(self.records, paced=True)).sink_to(self.sink).uid("sink")


def run_killed(job: KilledJob, moments: Sequence[str], seconds: float) -> None:
    """Run a job in processes that are killed, one after another, each at its moment; the last one comes to the job's end."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "job"
        file.write_bytes(cloudpickling.dumps((job, list(moments))))
        program = f"from {__name__} import main; main({str(file)!r})"
        path = os.pathsep.join(entry for entry in sys.path if entry)
        limit = seconds * (len(moments) + 1)
        try:
            ran = subprocess.run(  # noqa: S603 - our own program
                [sys.executable, "-c", program],
                env={**os.environ, "PYTHONPATH": path},
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise broken("drivers that are killed", f"not over after {limit:g} s") from error
    if ran.returncode:
        where, _, found = ran.stdout.rpartition("found: ")
        raise broken(where.strip() or "starting a driver", f"{found}\n{ran.stderr[-3000:]}")


def main(file: str) -> None:
    """Run the drivers of a file. Each is forked, which is much quicker than a start; there are no threads yet."""
    job, moments = cloudpickling.loads(Path(file).read_bytes())
    import penstock.jobmanager.job_master.job_master
    import penstock.runtime.task.pipelined.local_stage
    import penstock.testing.conformance.jobs  # noqa: F401 - what every driver would import

    killed = 0
    for moment in [*moments, None]:
        job.is_first = not killed
        process = os.fork()
        if process == 0:
            _drive(job, moment)
        _, status = os.waitpid(process, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == 0 and killed and job.may_end_early:
            return
        killed += code == -signal.SIGKILL
        if code != (-signal.SIGKILL if moment else 0):
            where = f"a driver to be killed {moment}" if moment else "the driver after the others"
            print(f"{where}\nfound: it ended with code {code}", flush=True)
            sys.exit(1)


def _drive(job: KilledJob, moment: str | None) -> NoReturn:
    """Run the job in this process and end it."""
    from penstock.client.mini_cluster import MiniCluster
    from penstock.testing.conformance.jobs import environment
    from penstock.testing.faults import watched_steps

    seen: Counter[str] = Counter()

    def die(step: str, _: int) -> None:
        seen[step] += 1
        if step == moment and seen[step] == _OCCURRENCE:
            os.kill(os.getpid(), signal.SIGKILL)

    code = 1
    try:
        env = environment(Path(job.directory), job.mode, 2, {"penstock.job-id": _JOB_ID})
        job.build(env)
        with MiniCluster(), watched_steps(die):
            job.run(env)
        code = 0
    except BaseException:  # noqa: BLE001 - reported to the parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
