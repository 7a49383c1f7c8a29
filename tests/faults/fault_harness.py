"""Runs the ledger job in processes of its own, kills parts of it, and judges what it leaves behind."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
from fault_log import Fault, KillLog

import penstock
from penstock.checkpoint.manifest_store import LATEST, ManifestStore
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.jobmanager.running.journal import list_records, read_record, record_name
from tests.builders.modes import WAYS, Way

ROOT = Path(penstock.__file__).parents[1]
LEDGER = Path(__file__).parent / "jobs" / "ledger.py"
sys.path.insert(0, str(LEDGER.parent))

import ledger  # noqa: E402 - the job itself, for its job id and its expected output

LOCAL = "local[2,4]"
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
TIMEOUT_S = 240.0  # for each thing that is waited for
AHEAD = 120  # records beyond the last checkpoint, of a job that is fed
_POLL_S = 0.01
_TAG = "PENSTOCK_FAULT_RUN"  # an environment variable that all processes of a run inherit
_RESTART = "job failed, restart"
_MAX_DIFFERENCES = 20

Expected = dict[str, list[str]]  # sorted lines by sink
NewRun = Callable[..., Any]


class LedgerRun:
    """One job from its first start to its end, over as many driver processes as that takes."""

    script = LEDGER
    job_id = ledger.JOB_ID
    sinks: tuple[str, ...] = ("windows", "counts")

    def __init__(
        self,
        directory: Path,
        log: KillLog,
        *,
        way: Way = WAYS[0],
        master: str = LOCAL,
        **options: Any,
    ) -> None:
        """`options` are those of the job, see its `main`."""
        self.directory = directory
        self.kills = log
        self.way = way
        self.master = master
        self.options = options
        self.records: int = options.get("records", ledger.RECORDS)
        self.driver: subprocess.Popen[bytes] | None = None
        self.faults: list[Fault] = []
        self.restarts_are: str | None = None  # the kind of fault that each restart in place is
        self._restarts_seen = 0
        self._id = uuid.uuid4().hex
        self._fed_at: int | None = (
            None  # the checkpoint at which the job was last fed, while it is fed
        )
        self._output = directory / "driver.log"

    # Life of the driver

    def start(
        self,
        faults: Iterable[tuple[str, int, str]] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start a driver: the first one begins the job, any other one resumes it."""
        self.driver = self._launch(self._output, faults, environment or {})

    def start_second(self) -> tuple[subprocess.Popen[bytes], Path]:
        """Start a driver by mistake; return its process and the file that it writes to."""
        output = self.directory / f"second-{uuid.uuid4().hex}.log"
        return self._launch(output, (), {}), output

    def _launch(
        self, log: Path, faults: Iterable[tuple[str, int, str]], more: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        self.directory.mkdir(parents=True, exist_ok=True)
        options = {
            "directory": str(self.directory),
            "master": self.master,
            "way": self.job_options(),
            "faults": list(faults),
            **self.options,
        }
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            **self.tagged(),
            **more,
        }
        if self.master != LOCAL:
            import pyspark

            environment["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
            # There are four JVMs in a local cluster, and new ones all the time: this is how they start fast.
            environment["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, str(self.script), json.dumps(options)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def tagged(self) -> dict[str, str]:
        """What the environment of all processes of this run has."""
        return {_TAG: self._id}

    def job_options(self) -> dict[str, str]:
        """The options of the job that depend on the run."""
        return dict(self.way.options)

    @contextlib.contextmanager
    def without_end(self) -> Iterator[None]:
        """Let the input have no end meanwhile, so that nothing depends on how fast the job is.

        With the option `released`, there are new records after each checkpoint.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        with existing(self.directory / "hold"):
            if self.options.get("released"):
                self.records = 0
                self._feed(0)
            yield
            self._fed_at = None

    def _feed(self, checkpoint_id: int) -> None:
        self.release(max(self.records, self._position() + AHEAD))
        self._fed_at = checkpoint_id

    def release(self, records: int) -> None:
        """Let the job read so many records of its first split, in all."""
        self.records = records
        temporary = self.directory / "released.tmp"
        temporary.write_text(str(records))
        temporary.replace(self.directory / "released")

    def _position(self) -> int:
        """How many records of the first split the newest checkpoint has."""
        store = ManifestStore(CheckpointFileSystem(str(self.checkpoints.parent)), self.job_id)
        manifest = store.latest() if self.checkpoint_id() else None
        if manifest is None:
            return 0
        positions = [
            progress.position
            for source in manifest.sources.values()
            for subtask in range(source.parallelism)
            for progress in source.load_splits(subtask)
            if progress.split.split_id == "0"
        ]
        return max(positions, default=0)

    def redeliveries(self) -> int:
        """How often records were delivered again, over all drivers."""
        noted = self.directory / "redelivered"
        return len(noted.read_text().splitlines()) if noted.exists() else 0

    def note_redeliveries(self) -> int:
        """Take note of how often records were delivered again."""
        times = self.redeliveries()
        self.strike("records again", times, interrupts=False)
        return times

    def wait_for_redelivery(self) -> bool:
        """Wait until records are delivered once more again; False if the driver ended before."""
        before = self.redeliveries()
        return self.wait_until(lambda: self.redeliveries() > before)

    def kill_driver(self) -> bool:
        """Kill the driver, and nothing else; False if it was over already."""
        assert self.driver is not None
        if self.driver.poll() is not None:
            return False
        self.driver.kill()
        if self.driver.wait() != -signal.SIGKILL:
            return False
        self.strike("driver killed")
        return True

    def wait(self) -> int:
        """Wait for the driver to end and return its exit code."""
        assert self.driver is not None
        self.wait_until(lambda: self.driver.poll() is not None, or_end=False)
        return self.driver.returncode

    @property
    def is_running(self) -> bool:
        return self.driver is not None and self.driver.poll() is None

    def wait_until(
        self, condition: Callable[[], bool], *, or_end: bool = True, within_s: float = TIMEOUT_S
    ) -> bool:
        """Wait for something to happen; False if the driver ended before it did."""
        deadline = time.monotonic() + within_s
        while True:
            self._observe()
            if condition():
                return True
            if or_end and not self.is_running:
                return condition()
            assert time.monotonic() < deadline, f"the job hangs\n{self.story()}"
            time.sleep(_POLL_S)

    def wait_for_epochs(self, count: int, *, within_s: float = TIMEOUT_S) -> bool:
        """Wait for so many more checkpoints; False if the driver ended before."""
        target = self.checkpoint_id() + count
        return self.wait_until(lambda: self.checkpoint_id() >= target, within_s=within_s)

    def pause(self, seconds: float) -> None:
        """Let the job go on for a moment, wherever that leads."""
        until = time.monotonic() + seconds
        self.wait_until(lambda: time.monotonic() >= until)

    def checkpoint_id(self) -> int:
        """The newest durable checkpoint."""
        found = (self.checkpoints).glob("chk-*/_metadata")
        return max((int(path.parent.name[4:]) for path in found), default=0)

    def restarts(self) -> int:
        """How often the job was restarted in place, over all drivers."""
        return self.said(_RESTART)

    @property
    def checkpoints(self) -> Path:
        return self.directory / "checkpoints" / self.job_id

    # Faults

    def strike(self, kind: str, count: int = 1, *, interrupts: bool = True) -> None:
        """Take note that something was done to the job just now; if it `interrupts`, see when it goes on."""
        checkpoint_id, now = (self.checkpoint_id(), time.monotonic()) if interrupts else (0, 0.0)
        for _ in range(count):
            self.faults.append(self.kills.add(Fault(kind, str(self.way), checkpoint_id, now)))

    def survive(self, full: contextlib.AbstractContextManager[None]) -> None:
        """Let the disk be full until the job has failed at least once; the time counts from when there is space again."""
        before = self.restarts()
        with full:
            assert self.wait_until(lambda: self.restarts() > before), self.story()
        self.strike("disk full")
        assert self.wait_for_epochs(1), self.story()

    def _observe(self) -> None:
        """Look for restarts and for the first checkpoint after each fault; feed the job."""
        if self._fed_at is not None and (checkpoint_id := self.checkpoint_id()) != self._fed_at:
            self._feed(checkpoint_id)
        if self.restarts_are is not None:
            new = self.restarts() - self._restarts_seen
            if new:
                self._restarts_seen += new
                self.strike(self.restarts_are, new)
        waiting = [fault for fault in self.faults if fault.at and fault.recovery_s is None]
        if waiting:
            checkpoint_id, now = self.checkpoint_id(), time.monotonic()
            for fault in waiting:
                if checkpoint_id > fault.checkpoint_id:
                    fault.recovery_s = now - fault.at

    # Processes

    def processes(self) -> list[psutil.Process]:
        """All processes of the run, of this driver and of earlier ones."""
        return [process for process in psutil.process_iter() if _tag(process) == self._id]

    def workers(self) -> list[psutil.Process]:
        """The Python workers: forks of a daemon process, which the JVM has started."""
        return [p for p in self.processes() if _runs(p, "daemon") and not _has_java_parent(p)]

    def worker_of(self, subtask: int) -> psutil.Process:
        """The Python worker that has a subtask's state, in the newest attempt."""
        return psutil.Process(int((self.directory / f"process-{subtask}").read_text()))

    def daemons(self) -> list[psutil.Process]:
        """The processes that Python workers are forked from."""
        return [p for p in self.processes() if _runs(p, "daemon") and _has_java_parent(p)]

    def executors(self) -> list[psutil.Process]:
        """The JVMs of a local cluster's executors."""
        return [p for p in self.processes() if _runs(p, "CoarseGrainedExecutorBackend")]

    def kill(self, kind: str, process: psutil.Process) -> bool:
        """Kill a process of the run; False if it was gone."""
        try:
            process.kill()
        except psutil.NoSuchProcess:
            return False
        self.strike(f"{kind} killed")
        return True

    def leftovers(self, timeout_s: float) -> list[str]:
        """The processes that are still there after a while, in words; they are killed."""
        until = time.monotonic() + timeout_s
        while (alive := self.processes()) and time.monotonic() < until:
            time.sleep(0.1)
        found = []
        for process in alive:
            try:
                found.append(f"{process.pid} {' '.join(process.cmdline())[:200]}")
                process.kill()
            except psutil.NoSuchProcess:
                continue
        return found

    # What is left behind

    def lines(self, sink: str) -> list[str]:
        """The lines of all visible files of a sink, sorted."""
        lines: list[str] = []
        for path in sorted((self.directory / sink).rglob("*")):
            if path.is_file() and not path.name.startswith((".", "_")):
                lines += path.read_bytes().decode().splitlines(keepends=True)
        return sorted(lines)

    def hidden_files(self) -> list[str]:
        """Files in the sinks' directories that a reader must not look at, and databases that are no longer needed."""
        hidden = [
            path
            for sink in self.sinks
            for path in (self.directory / sink).rglob("*")
            if path.name.startswith((".", "_"))
        ]
        hidden += (self.directory / "rocksdb").rglob("*")
        return sorted(str(path.relative_to(self.directory)) for path in hidden if path.is_file())

    def unnamed_checkpoint_files(self) -> list[str]:
        """What is on checkpoint storage although no manifest that is kept names it."""
        store = ManifestStore(CheckpointFileSystem(str(self.checkpoints.parent)), self.job_id)
        manifests = store.read_all()
        named = {"_latest", *(f"chk-{manifest.checkpoint_id}/_metadata" for manifest in manifests)}
        for manifest in manifests:
            named |= manifest.files()
        named |= {LATEST, *self._journal(store)}
        # Files only: a driver that is killed may leave a directory behind that it has just made or emptied.
        found = (path for path in self.checkpoints.rglob("*") if path.is_file())
        there = {str(path.relative_to(self.checkpoints)) for path in found}
        # A record of the journal that was being written when its driver was killed.
        there -= {name for name in there if re.fullmatch(r"journal/\..*\.tmp", name)}
        missing = {f"missing: {name}" for name in named - there}
        surplus = there - named
        return sorted(missing | surplus | {f"kept: {m.checkpoint_id}" for m in manifests[:-1]})

    def _journal(self, store: ManifestStore) -> set[str]:
        """What the journal may keep: the last epoch, its failure if it had one, and their plans."""
        records = [
            record_name(checkpoint_id, failed=failed)
            for checkpoint_id, failed in list_records(store.storage)
            if checkpoint_id == self.checkpoint_id()
        ]
        return {*records, *(read_record(store.storage, name).plan for name in records)}

    def story(self) -> str:
        """The last lines that the drivers wrote."""
        text = self._output.read_text(errors="replace") if self._output.exists() else ""
        return f"--- {self._output}\n" + "\n".join(text.splitlines()[-40:])

    def said(self, text: str) -> int:
        """How often the drivers wrote a text."""
        if not self._output.exists():
            return 0
        return self._output.read_text(errors="replace").count(text)


@contextlib.contextmanager
def existing(switch: Path) -> Iterator[None]:
    """Let a file exist meanwhile: faults of storage may depend on it."""
    switch.touch()
    yield
    switch.unlink()


def difference(expected: list[str], found: list[str]) -> str:
    """What is lost (-) and what is too much (+), shortened; empty if nothing is."""
    changes = [
        line.rstrip("\n")
        for line in difflib.unified_diff(expected, found, "expected", "found", n=0, lineterm="")
        if not line.startswith("@@")
    ]
    more = len(changes) - _MAX_DIFFERENCES
    return "\n".join(changes[:_MAX_DIFFERENCES] + ([f"... and {more} more"] if more > 0 else []))


def computed(records: int = ledger.RECORDS) -> Expected:
    """The output of both sinks as plain Python computes it."""
    windows, counts = ledger.expected(ledger.lengths(records))
    return {
        "windows": [f"{line}\n" for line in windows],
        "counts": [f"{line}\n" for line in counts],
    }


def judge(run: LedgerRun, expected: Expected, seed: object) -> None:
    """Fail unless the run's output is the expected one and nothing else is left behind."""
    problems = []
    lost = duplicated = 0
    for sink, lines in expected.items():
        found = run.lines(sink)
        lost += (Counter(lines) - Counter(found)).total()
        duplicated += (Counter(found) - Counter(lines)).total()
        if found != lines:
            problems.append(f"sink '{sink}':\n{difference(lines, found)}")
    for fault in run.faults:
        fault.lost, fault.duplicated = lost, duplicated
    left = run.leftovers(timeout_s=TIMEOUT_S)
    if left:
        problems.append("processes that did not end:\n" + "\n".join(left))
    if hidden := run.hidden_files():
        problems.append("hidden files left behind:\n" + "\n".join(hidden))
    if unnamed := run.unnamed_checkpoint_files():
        problems.append("checkpoint storage:\n" + "\n".join(unnamed))
    if problems:
        raise AssertionError("\n".join([f"seed {seed}", *problems, run.story()]))


def _tag(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(_TAG)
    except (psutil.Error, OSError):
        return None


def _has_java_parent(process: psutil.Process) -> bool:
    try:
        parent = process.parent()
        return parent is not None and parent.name() == "java"
    except psutil.Error:
        return False


def _runs(process: psutil.Process, module: str) -> bool:
    """Whether a process was started to run a Python module or a Java class whose name ends like this."""
    try:
        return any(word.endswith(module) and "=" not in word for word in process.cmdline())
    except psutil.Error:
        return False
