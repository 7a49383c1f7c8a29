"""A source and a sink that keep all rules, and can be told to break one: what the conformance kit is tried out on."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

from penstock.connectors.base.sink import Committer, Sink, SinkWriter
from penstock.connectors.base.source import (
    Boundedness,
    MalformedRecord,
    NonBlockingReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.testing import Guarantee, SinkSetup, SourceSetup

SPLITS = 2
BAD = "!"
# How long the kit waits for what a connector does; a busy machine may take long. These never do it, so waiting longer changes nothing.
TIMEOUT_S = 60.0
SHORT_S = 2.0
NEVER_DONE = {
    "says that there is nothing",
    "sleeps for ever",
    "knows two subtasks",
    "fails with metrics",
}


class Flawed(Source):
    """Reads files of JSON lines; the position is a number of lines."""

    def __init__(self, directory, flaw, bounded):
        self.directory, self.flaw, self.bounded = str(directory), flaw, bounded

    def get_boundedness(self):
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism, restored=None):
        return FlawedEnumerator(self, parallelism, restored)

    def create_reader(self):
        return FlawedReader(self)


class FlawedEnumerator(SplitEnumerator):
    def __init__(self, source, parallelism, restored):
        self.source, self.parallelism = source, parallelism
        self.found = bool(restored)
        if source.flaw == "plans again when rescaled" and restored:
            self.found = restored == parallelism

    def discover(self):
        if self.found and self.source.flaw != "finds splits again":
            return []
        self.found = True
        name = str(self.parallelism) if self.source.flaw == "plans again when rescaled" else ""
        splits = [SourceSplit(f"{name}split {n}", n, 0) for n in range(SPLITS)]
        if self.source.flaw == "one id for all splits":
            splits = [SourceSplit("split", n, 0) for n in range(SPLITS)]
        marker = Path(self.source.directory, "found")
        if self.source.flaw == "finds what is left to find":
            if marker.exists():
                return []
            marker.touch()
        return splits

    def no_more_splits(self):
        return self.source.bounded and self.found

    def has_data(self, positions):
        return bool(positions) and self.source.flaw != "says that there is nothing"

    def snapshot(self):
        if self.source.flaw == "forgets what it found":
            return None
        return self.parallelism if self.found else 0

    def on_checkpoint(self, splits):
        if self.source.flaw == "waits in on_checkpoint":
            time.sleep(1.2)


class FlawedReader(SourceReader):
    def __init__(self, source):
        self.source, self.flaw = source, source.flaw
        self.inside = False

    def lines(self, split):
        file = Path(self.source.directory, str(split.payload))
        lines = file.read_text().splitlines() if file.exists() else []
        return [line[:1000] for line in lines] if self.flaw == "cuts long records" else lines

    def ordered(self, split):
        return self.flaw == "positions that do not ascend"

    def read(self, split, position, limits):
        self.inside = True
        if self.flaw == "waits" and isinstance(limits, NonBlockingReadLimits):
            time.sleep(0.3)
        lines = self.lines(split)
        if self.flaw == "fails without records" and not lines:
            raise IndexError("no line")
        position = position[0] if isinstance(position, tuple) else position
        progress = Path(self.source.directory, f"progress-{split.payload}")
        if self.flaw == "remembers where it is by itself":
            position = int(progress.read_text()) if progress.exists() else position
        while position < len(lines):
            end = min(position + limits.batch_size, len(lines))
            if self.flaw == "remembers where it is by itself":
                progress.write_text(str(end))
            yield self.batch(split, lines[position:end], position, end)
            position = end
        while self.flaw == "does not end":
            yield SourceBatch([], position)
        self.inside = False

    def batch(self, split, lines, start, end):
        good, malformed = [], []
        for number, line in enumerate(lines, start=start):
            if line != BAD and self.flaw != "cuts long records":
                good.append(json.loads(line))
            elif line != BAD:
                good.append(line.strip('"'))
            elif self.flaw == "names no origin":
                malformed.append(MalformedRecord.of(line, ValueError("it shouts"), {}))
            elif self.flaw != "leaves out what it cannot read":
                origin = {"split": split.split_id, "line": number}
                malformed.append(MalformedRecord.of(line, ValueError("it shouts"), origin))
        position = {
            "goes back by one": max(end - 1, 0),
            "goes on by one": end + 1,
            "positions that cannot be pickled": (end, threading.Lock()),
        }.get(self.flaw, end)
        if self.flaw == "positions that cannot be pickled":
            return SourceBatch(good, position)
        places = [end] * len(good) if self.flaw == "positions that do not ascend" else None
        return SourceBatch(good, position, positions=places, malformed=malformed)

    def next_ready(self, split, position):
        return {"is always ready": 0.0, "sleeps for ever": float("inf")}.get(self.flaw)

    def on_checkpoint(self, split, position):
        if self.flaw == "lets go of too much":
            file = Path(self.source.directory, str(split.payload))
            lines = file.read_text().splitlines()
            file.write_text("".join(f"{line}\n" for line in lines[:position]))

    def close(self):
        if self.flaw == "cannot be left" and self.inside:
            raise RuntimeError("closed in the middle")


class FlawedSourceSetup(SourceSetup):
    def __init__(self, directory, flaw, *, bounded=True):
        self.wait_s = SHORT_S if flaw in NEVER_DONE else TIMEOUT_S
        self.directory, self.flaw = Path(directory), flaw
        self.directory.mkdir(exist_ok=True)
        self.bounded, self.appends = bounded, not bounded

    def create(self):
        return Flawed(self.directory, self.flaw, self.bounded)

    def add(self, records):
        self._append([json.dumps(record) for record in records])

    def _append(self, lines):
        for n in range(SPLITS):
            with (self.directory / str(n)).open("a") as file:
                file.writelines(f"{line}\n" for line in lines[n::SPLITS])

    def add_malformed(self):
        self._append([BAD])
        return "it shouts"

    def wrong_arguments(self):
        def refuse():
            if self.flaw != "takes any argument":
                raise ValueError("no")

        return [refuse]


# Prepared in memory: what a sink must not do that lives longer than its process.
_memory: dict[str, list] = {}


class FlawedSink(Sink):
    """Files of JSON lines: prepared under one folder, committed by a rename into another."""

    def __init__(self, directory, flaw):
        self.directory, self.flaw = Path(directory), flaw

    def create_writer(self, context, restored=None):
        if self.flaw == "knows two subtasks" and context.subtask > 1:
            raise IndexError("no such subtask")
        if self.flaw == "fails with metrics" and context.metrics is not None:
            raise TypeError("what are metrics?")
        if self.flaw == "takes no state" and restored is not None:
            raise TypeError("what is this?")
        return FlawedWriter(self, context)

    def create_committer(self):
        return FlawedCommitter(self)


class FlawedWriter(SinkWriter):
    def __init__(self, sink, context):
        self.sink, self.flaw, self.context = sink, sink.flaw, context
        self.name, self.last = None, None
        self.carried = []

    def begin(self, checkpoint):
        self.checkpoint_id = checkpoint.checkpoint_id
        self.name = f"{self.context.job_id}.{self.context.subtask}.{checkpoint.attempt}.{checkpoint.checkpoint_id}"
        if self.flaw == "names output by subtask and epoch":
            self.name = f"{self.context.job_id}.{self.context.subtask}.{checkpoint.checkpoint_id}.{checkpoint.checkpoint_id}"
        self.lines, self.carried = self.carried, []
        self.due = 5

    def write(self, values, timestamps, watermark):
        if self.flaw != "leaves out what it cannot write":
            lines = [json.dumps(value) for value in values]
        else:
            lines = [json.dumps(value) for value in values if isinstance(value, str)]
        if self.flaw == "refuses big records" and any(len(line) > 9999 for line in lines):
            raise ValueError("too big")
        self.lines += lines
        if self.flaw == "shows what is written":
            self._put("shown", f"w{time.monotonic_ns()}", lines)

    def next_wakeup(self):
        return 5 if self.flaw == "is due for ever" else None

    def _put(self, folder, name, lines):
        place = self.sink.directory / folder
        place.mkdir(parents=True, exist_ok=True)
        hidden = place / f".{name}{time.monotonic_ns()}"
        hidden.write_text("".join(f"{line}\n" for line in lines))
        hidden.rename(place / name)

    def prepare_commit(self):
        if self.flaw == "keeps a part for the next epoch":
            self.carried = self.lines[-1:]
            self.lines = self.lines[:-1]
        name, self.last, self.name = self.name, self.name, None
        if self.flaw == "prepares in memory":
            _memory[name] = self.lines
        elif self.flaw == "shows what is prepared":
            self._put("shown", name, self.lines)
        else:
            self._put("prepared", name, self.lines)
        if self.flaw == "committables that cannot be pickled":
            return [threading.Lock()]
        if self.flaw == "committables that are not a list":
            return name
        return [name]

    def snapshot(self):
        return 1 if self.flaw in {"takes no state", "states that cannot be merged"} else None

    def close(self):
        if self.flaw == "cannot be closed unused" and self.last is None and self.name is None:
            raise AttributeError("lines")
        if self.flaw == "close shows what is open" and self.name is not None:
            self._put("shown", self.name, self.lines)
        if self.flaw == "close takes back what is prepared" and self.last is not None:
            (self.sink.directory / "prepared" / self.last).unlink(missing_ok=True)


class FlawedCommitter(Committer):
    def __init__(self, sink):
        self.sink, self.flaw = sink, sink.flaw
        self.done = 0

    def commit(self, request):
        names = request.committables
        if self.flaw == "fails without committables" and not names:
            raise IndexError("nothing to commit")
        for name in names:
            if self.flaw == "commits its own epoch only" and not name.endswith(
                f".{request.checkpoint_id}"
            ):
                continue
            if self.flaw == "prepares in memory":
                self._show(name, _memory.get(name, []))
                continue
            prepared = self.sink.directory / "prepared" / name
            if self.flaw == "commits again":
                self._show(f"{name}{time.monotonic_ns()}", self._old(prepared, name))
            elif self.flaw == "cannot commit again" or prepared.exists():
                self._show(name, prepared.read_text().splitlines())
                prepared.unlink()
        self.done += 1
        if self.flaw == "commits once in its life" and self.done > 1:
            raise RuntimeError("already done")

    def _old(self, prepared, name):
        old = self.sink.directory / "old" / name
        old.parent.mkdir(exist_ok=True)
        if prepared.exists():
            prepared.rename(old)
        return old.read_text().splitlines()

    def _show(self, name, lines):
        shown = self.sink.directory / "shown"
        shown.mkdir(parents=True, exist_ok=True)
        (shown / name).write_text("".join(f"{line}\n" for line in lines))

    def clean_up(self, requests, job_id):
        if self.flaw == "cleans up nothing":
            return
        named = {name for request in requests for name in request.committables}
        for file in (self.sink.directory / "prepared").glob("*"):
            own = file.name.startswith(job_id) or self.flaw == "cleans up other jobs"
            if own and (file.name not in named or self.flaw == "cleans up what is named"):
                file.unlink()


class FlawedSinkSetup(SinkSetup):
    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(self, directory, flaw):
        self.wait_s = SHORT_S if flaw in NEVER_DONE else TIMEOUT_S
        self.directory, self.flaw = Path(directory), flaw
        self.directory.mkdir(exist_ok=True)

    def create(self):
        return FlawedSink(self.directory, self.flaw)

    def shown(self):
        files = (self.directory / "shown").glob("[!.]*")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def left_over(self):
        return [file.name for file in (self.directory / "prepared").glob("*")]

    def unwritable(self):
        return {1, 2}

    def wrong_arguments(self):
        return FlawedSourceSetup.wrong_arguments(self)
