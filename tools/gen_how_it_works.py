"""Writes the plans, the rows and the manifest that docs/developers/how-it-works.md shows, from a real run of its job.

    python tools/gen_how_it_works.py

Text between `<!-- generated: name -->` and `<!-- end -->` is replaced. Only what differs from run to run (ids, times,
pickles) is replaced by a word. A unit test checks that the page shows what the program prints today.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelined_recording import describe_channels, describe_messages, recording

from penstock.checkpoint import manifest as manifests
from penstock.common import Configuration, Duration, Encoder, Time, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import AggregateFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import (
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import JobCancelledError
from penstock.graph.compiler import compile_program
from penstock.graph.deployment import LevelDeployment
from penstock.graph.job_graph import JobGraph
from penstock.graph.placement import lay_out
from penstock.graph.task_id import TaskId
from penstock.jobmanager.execution import execution_graph
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.jobmanager.running import thread_cluster
from penstock.runtime.network import messages
from penstock.runtime.network.buffers import BufferedRow, decode
from penstock.runtime.task.epochs.epoch_slot import run_slot
from penstock.runtime.task.epochs.local_pipe import deliver
from penstock.testing import MiniCluster

PAGE = Path(__file__).parents[1] / "docs" / "developers" / "how-it-works.md"
INPUT = {
    "a.txt": "ann,1000\nbob,2000\nann,11000\nann,12500\n",
    "b.txt": "cid,1500\nbob,9000\nann,13000\n",
}
WIDTH = 108
_RUNS = 10
# Of all subtasks at the checkpoint: source 0, and those that follow source 1 once they know that source 0 is idle.
_WATERMARKS = [11_499, 11_999, 11_999, 11_999]
KINDS = {
    getattr(messages, name): name
    for name in ("DATA", "WATERMARK", "STATUS", "BARRIER", "ACK", "FAILURE")
}


class ClickTime(TimestampAssigner):
    def extract_timestamp(self, value: str, record_timestamp: int) -> int:
        return int(value.split(",")[1])


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: str, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


def user_of(line: str) -> str:
    return line.partition(",")[0]


def build(env: StreamExecutionEnvironment, inbox: str, outbox: str) -> None:
    """The job of the page."""
    files = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), inbox)
        .monitor_continuously(Duration.of_minutes(1))  # a subtask without files becomes idle then
        .build()
    )
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    sink = (
        FileSink.for_row_format(outbox, Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )

    clicks = env.from_source(files, watermarks.with_timestamp_assigner(ClickTime()), "clicks")
    counts = (
        clicks.key_by(user_of)
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .aggregate(Count())
    )
    counts.sink_to(sink).name("counts")


def blocks() -> dict[str, str]:
    """Return all generated blocks by name."""
    with tempfile.TemporaryDirectory() as directory:
        found = _plans(directory) | _run(directory)
    return found | _run_pipelined()


def _environment(directory: str) -> StreamExecutionEnvironment:
    options = {
        "execution.checkpointing.dir": f"{directory}/checkpoints",
        "execution.checkpointing.interval": "1 s",
        "parallelism.default": "2",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    inbox = Path(directory, "clicks")
    inbox.mkdir(exist_ok=True)
    for name, text in INPUT.items():
        (inbox / name).write_text(text)
        os.utime(inbox / name, (0, 0))  # a file that has just been written may still grow
    build(env, str(inbox), f"{directory}/counts")
    return env


def _plans(directory: str) -> dict[str, str]:
    env = _environment(directory)
    transformations = tuple(env._transformations)  # noqa: SLF001
    plans = compile_program(transformations, env._graph_settings("counts"))  # noqa: SLF001
    running = execution_graph.generate(plans.job_graph, job_id="<job id>", now_ms=0)
    return {
        "transformations": _fence("text", "\n".join(_describe_transformations(transformations))),
        "stream_graph": _json(plans.stream_graph.to_json()),
        "job_graph": _json(plans.job_graph.to_json()),
        "execution_graph": _json(running.to_json()["vertices"][0]),
        "stage_plan": _json(plans.stage_plan.to_json()),
        "explain": _fence("text", plans.stage_plan.explain()),
        "placement": _fence("text", "\n".join(_placement(plans.job_graph))),
    }


def _placement(graph: JobGraph) -> list[str]:
    names = {vertex.id: vertex.name for vertex in graph.vertices}
    return [
        f"stage {stage.stage}, slot {slot}: {names[task.vertex]} [{task.subtask}]"
        for stage in lay_out(graph, None)
        for task, slot in sorted(stage.placement.items(), key=lambda item: item[1])
    ]


def _run_pipelined() -> dict[str, str]:
    """Run the job in pipelined mode. On a slow machine, the first checkpoint may come too early: run again."""
    for _ in range(_RUNS):
        with (
            tempfile.TemporaryDirectory() as directory,
            recording() as found,
            MiniCluster() as cluster,
        ):
            env = _environment(directory)
            env.configure(Configuration.from_dict({"penstock.execution.mode": "pipelined"}))
            client = env.execute_async("counts")
            result = client.get_job_execution_result()
            while not result.done() and not found.confirmed:
                time.sleep(0.01)
            master = cluster.masters[0]
            first = master.store.read(1)
            client.cancel().result()
            try:
                result.result()
            except JobCancelledError:
                """As it should be."""
        if found.has_all_records and sorted(each.watermark for each in found.acks) == _WATERMARKS:
            attempts = {ack.attempt: f"slot {ack.attempt.rpartition('-')[2]}" for ack in found.acks}
            return {
                "ack": _fence("text", _describe_ack(found.acks, attempts)),
                "manifest": _json(_shortened(master, first, attempts)),
                "channels": _fence("text", "\n".join(describe_channels(found, _without_tokens))),
                "messages": _fence("text", "\n".join(describe_messages(found, _short))),
            }

    raise RuntimeError(
        f"in {_RUNS} runs, the first checkpoint came before all input was read, or before source 0 was known to be idle"
    )


def _without_tokens(text: str) -> str:
    return re.sub(r"attempt='\w+-(\d)'", r"attempt='slot \1'", text)


def _describe_transformations(transformations: Sequence[Any]) -> list[str]:
    lines: list[str] = []
    seen: dict[int, int] = {}

    def walk(step: Any) -> int:
        if step.id not in seen:
            inputs = [walk(producer) for producer in step.inputs]
            seen[step.id] = len(seen) + 1
            kind = type(step).__name__
            spec = getattr(step, "spec", None) or getattr(step, "partitioning", None)
            what = f" ({type(spec).__name__})" if spec is not None else ""
            source = f" <- {', '.join(map(str, inputs))}" if inputs else ""
            lines.append(f"{seen[step.id]}  {kind}{what} '{step.name}'{source}")
        return seen[step.id]

    for step in transformations:
        walk(step)
    return lines


class _Recorder:
    """Runs the pipe level by level, as the in-process cluster does, and keeps the rows between the levels."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, BufferedRow]] = []
        self.attempts: dict[str, str] = {}

    def __call__(
        self,
        levels: Sequence[LevelDeployment],
        on_ack: Callable[[messages.TaskAck], None],
        cancelled: Callable[[], bool],
    ) -> None:
        arriving: list[list[BufferedRow]] = [[] for _ in range(levels[0].slots)]
        for level in levels:
            leaving: list[list[BufferedRow]] = [[] for _ in range(max(level.next_slots, 1))]
            for slot in range(level.slots):
                attempt = uuid.uuid4().hex[:12]
                self.attempts[attempt] = f"attempt {level.level}.{slot}"
                for row in run_slot(level, slot, attempt, arriving[slot], cancelled=cancelled):
                    self.rows.append((level.level, row))
                    leaving[row.target % len(leaving)].append(row)
            arriving = leaving
        deliver((row for rows in arriving for row in rows), on_ack)


def _run(directory: str) -> dict[str, str]:
    recorder = _Recorder()
    before, thread_cluster.run_pipe_locally = thread_cluster.run_pipe_locally, recorder
    try:
        with MiniCluster() as cluster:
            client = _environment(directory).execute_async("counts")
            master = cluster.masters[0]
            result = client.get_job_execution_result()
            while not result.done() and master.store.latest() is None:
                time.sleep(0.01)
            client.cancel().result()
            try:
                result.result()
            except JobCancelledError:
                """As it should be."""
    finally:
        thread_cluster.run_pipe_locally = before
    return {"rows": _fence("text", "\n".join(_describe_rows(recorder)))}


def _describe_rows(recorder: _Recorder) -> list[str]:
    lines = ["target vertex gate channel seq kind      payload"]
    for level, row in recorder.rows:
        if level != 0:
            continue
        if row.kind == messages.DATA:
            batch = decode(row.payload)
            content = f"{batch.values}, {batch.timestamps}, {batch.keys}"
        elif row.kind == messages.ACK:
            ack = pickle.loads(row.payload)
            content = f"TaskAck(task={_short(ack.task)}, ...)"
        else:
            content = repr(pickle.loads(row.payload))
        for attempt, name in recorder.attempts.items():
            content = content.replace(attempt, name)
        lines.append(
            f"{row.target:>6} {row.vertex:>6} {row.gate:>4} {row.channel:>7} {row.sequence:>3} "
            f"{KINDS[row.kind]:<9} {content}"
        )
    return lines


def _short(task: TaskId) -> str:
    return f"{task.vertex[:4]}...[{task.subtask}]"


def _describe_ack(acks: Sequence[messages.TaskAck], name: Mapping[str, str]) -> str:
    ack = min((ack for ack in acks if ack.committables), key=lambda ack: ack.task)
    upstream = {_short(task): name[token] for task, token in sorted(ack.upstream.items())}
    (chain,) = ack.keyed.values()
    (handle,) = chain
    return "\n".join(
        [
            f"task         {_short(ack.task)}",
            f"attempt      {name[ack.attempt]}",
            f"upstream     {upstream}",
            f"keyed        a chain of one {handle.kind} snapshot of key groups {handle.key_groups}",
            "local        a pickle: the valve, the timer service's watermark, operator state",
            f"committables {sum(map(len, ack.committables.values()))} hidden file",
            f"watermark    {ack.watermark}",
            f"finished     {ack.finished}",
        ]
    )


def _shortened(master: JobMaster, manifest: manifests.Manifest, attempts: Mapping[str, str]) -> Any:
    text = manifests.encode(manifest).decode().splitlines()[1]
    text = text.replace(master.job.job_id, "<job id>")
    for attempt, name in attempts.items():
        text = text.replace(attempt, name)
    value = json.loads(text)
    value["created_ms"] = "<time>"
    value["next_wakeup"] = _time(value["next_wakeup"])
    for vertex in value["vertices"].values():
        vertex["local"] = ["<pickle>"] * vertex["parallelism"]
        vertex["next_wakeups"] = [_time(each) for each in vertex["next_wakeups"]]
    for source in value["sources"].values():
        source["enumerator"] = "<pickle>"
        source["splits"] = ["<pickle>"] * len(source["splits"])
    value["commits"] = dict.fromkeys(value["commits"], "<pickle of a CommitRequest>")
    for operator in value["operators"].values():
        for chain in operator["subtasks"]:
            for handle in chain:
                handle.update({"crc32": "<checksum>", "size": "<bytes>"})
                handle.update({"data": "<base64>"} if "data" in handle else {})
    return value


def _time(value: int | None) -> str | None:
    return None if value is None else "<time>"


def _json(value: Any) -> str:
    return _fence("json", dump(value))


def _fence(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def dump(value: Any, indent: int = 0) -> str:
    """Return JSON with everything that fits on a line on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if indent + len(flat) <= WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        parts = [
            f"{inner}{json.dumps(key)}: {dump(item, indent + 2)}" for key, item in value.items()
        ]
        return "{\n" + ",\n".join(parts) + "\n" + " " * indent + "}"
    parts = [inner + dump(item, indent + 2) for item in value]
    return "[\n" + ",\n".join(parts) + "\n" + " " * indent + "]"


def render(page: str, found: dict[str, str]) -> str:
    """Return the page with all generated blocks put in."""
    names = set(re.findall(r"<!-- generated: (\w+) -->", page))
    if names != set(found):
        raise SystemExit(f"the page and the blocks differ: {sorted(names ^ set(found))}")
    return re.sub(
        r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)",
        lambda match: f"{match[1]}{found[match[2]]}\n{match[3]}",
        page,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    if "--show" in sys.argv:
        for block_name, block in blocks().items():
            print(f"## {block_name}\n{block}")
    else:
        PAGE.write_text(render(PAGE.read_text(), blocks()))
