"""`penstock replay`: runs one interval of a job again, in a local process, and stops where it failed.

An interval is the interval between two checkpoints; its number is the id of the second one.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.cli.output import print_json
from penstock.errors import ArgumentError

if TYPE_CHECKING:
    from penstock.replay import ReplayResult

    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_EPILOG = """\
JOB is <checkpoint directory>/<job id>, or the id or name of a job whose process runs. Checkpoint N is the interval before checkpoint N,
also written JOB/chk-N. The default is the last interval that failed, or the last one if none did. Nothing is written: sinks are
disabled, checkpoints are only read.

  penstock replay /checkpoints/4f0c... --pdb
  penstock replay /checkpoints/4f0c... --checkpoint 12 --show-output --verify
  penstock replay /checkpoints/4f0c... --checkpoint 12 --vertex price --subtask 1 --record 40 --pdb
"""


def add_commands(commands: Commands) -> None:
    """Add `replay` to the command line."""
    parser = commands.add_parser(
        "replay",
        help="replay the interval between two checkpoints of a job in this process",
        description="Replay one interval of a job, the interval between two checkpoints, in this process: with the state and the input that it had.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(call=run_command)
    parser.add_argument(
        "job",
        metavar="JOB",
        help="checkpoint directory of the job, or its id or name while its process runs",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--checkpoint",
        dest="checkpoint_id",
        type=int,
        metavar="N",
        help="replay the interval that ends with checkpoint N",
    )
    parser.add_argument(
        "--attempt",
        choices=["failed", "last"],
        help="attempt of an interval that failed and was repeated: the one that failed (the default), or the last one",
    )
    parser.add_argument(
        "--vertex",
        metavar="V",
        help="replay up to this vertex, given by uid, number, id or operator name",
    )
    parser.add_argument(
        "--subtask", type=int, metavar="I", help="subtask of the vertex, counted from 0"
    )
    parser.add_argument(
        "--pdb",
        action="store_true",
        help="start the debugger in your function: at the record that failed, or at the one given by --record or --key",
    )
    parser.add_argument(
        "--record",
        type=int,
        metavar="K",
        help="the K-th input record of the subtask, counted from 1",
    )
    parser.add_argument("--key", metavar="KEY", help="the first record with this key")
    parser.add_argument(
        "--show-output",
        action="store_true",
        help="show the records that the sinks would have written",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="compare the state after the interval with its checkpoint",
    )
    parser.add_argument(
        "--py-files",
        metavar="PATHS",
        default="",
        help="comma-separated Python files, directories and archives that the job needs",
    )


def run_command(given: argparse.Namespace) -> int:
    """Replay an interval; the exit code is 1 if it fails (again) or its state differs."""
    from penstock.cli.reach import directory_of
    from penstock.logs.handler import show_lines
    from penstock.logs.lines import TEXT
    from penstock.replay import Breakpoint, ReplayRequest, debug, replay

    _check(given)
    show_lines(TEXT)
    job = directory_of(given.job)
    python_files = tuple(path for path in given.py_files.split(",") if path)
    if given.pdb:
        stop = None
        if given.record is not None or given.key is not None:
            stop = Breakpoint(record=given.record, key=given.key)
        request = ReplayRequest(
            job,
            given.checkpoint_id,
            given.vertex,
            given.subtask,
            given.attempt,
            python_files=python_files,
        )
        result = debug(request, stop)
    else:
        result = replay(
            job,
            given.checkpoint_id,
            given.vertex,
            given.subtask,
            attempt=given.attempt,
            verify=given.verify,
            python_files=python_files,
        )
    if result.stopped:
        return 0
    if given.json:
        print_json(_as_json(result, show_output=given.show_output))
    else:
        sys.stdout.write(describe(result, show_output=given.show_output, verify=given.verify))
    differs = result.state is not None and not result.state.matches
    return 1 if result.failure is not None or differs else 0


def _check(given: argparse.Namespace) -> None:
    if given.subtask is not None and given.vertex is None:
        raise ArgumentError("--subtask needs --vertex", hint="add the vertex of the subtask")
    if (given.record is not None or given.key is not None) and not given.pdb:
        raise ArgumentError("--record and --key need --pdb", hint="add --pdb")
    if given.record is not None and given.key is not None:
        raise ArgumentError("--record and --key are mutually exclusive", hint="give one of them")
    if given.record is not None and given.record < 1:
        raise ArgumentError("--record must be at least 1", hint="1 is the first record")
    if given.verify and (given.vertex is not None or given.pdb):
        raise ArgumentError(
            "--verify compares the state of the whole job", hint="remove --vertex and --pdb"
        )


def _as_json(result: ReplayResult, *, show_output: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "job": {"id": result.job_id, "name": result.job_name},
        "checkpoint_id": result.checkpoint_id,
        "attempt": result.attempt,
        "operators": {
            name: {"records_in": counts.records_in, "records_out": counts.records_out}
            for name, counts in result.counts.items()
        },
        "sinks": {
            name: sum(map(len, subtasks.values())) for name, subtasks in result.sinks.items()
        },
        "notes": list(result.approximations),
        "failure": None if result.failure is None else str(result.failure),
        "recorded_failure": result.recorded_failure,
        "state_matches": None if result.state is None else result.state.matches,
    }
    if show_output:
        shown["output"] = {
            name: {
                str(subtask): [repr(record.value) for record in records]
                for subtask, records in subtasks.items()
            }
            for name, subtasks in result.sinks.items()
        }
    return shown


def describe(result: ReplayResult, *, show_output: bool = False, verify: bool = False) -> str:
    """Return the result of a replay as text."""
    lines = [f"job '{result.job_name}' ({result.job_id}), checkpoint {result.checkpoint_id}"]
    if result.attempt:
        lines[0] += f", after {result.attempt} restart{'s' if result.attempt > 1 else ''}"
    width = max((len(name) for name in result.counts), default=0)
    for name, counts in result.counts.items():
        taken = "" if counts.records_in is None else f"in {counts.records_in:,}, "
        lines.append(f"  {name:<{width}}  {taken}out {counts.records_out:,}")
    for name, subtasks in result.sinks.items():
        total = sum(map(len, subtasks.values()))
        lines.append(f"  sink '{name}' would have written {total:,} records")
        if show_output:
            lines += [
                f"    {subtask}: {record.value!r}"
                for subtask, records in subtasks.items()
                for record in records
            ]
    lines += [f"note: {text}" for text in result.approximations]
    lines += _describe_failure(result)
    if verify:
        lines += _describe_state(result)
    return "\n".join(lines) + "\n"


def _describe_failure(result: ReplayResult) -> list[str]:
    if result.failure is not None:
        return ["the interval failed:", str(result.failure)]
    if result.recorded_failure is not None:
        return ["the replay did not fail; the failure of the job was:", result.recorded_failure]
    return []


def _describe_state(result: ReplayResult) -> list[str]:
    if result.state is None:
        return ["the state was not compared: the interval ended without a completed checkpoint"]
    if result.state.matches:
        return [f"the state equals the checkpoint: {len(result.state.tables)} tables compared"]
    lines = ["the state differs from the checkpoint:"]
    for table in result.state.differing:
        lines.append(f"  '{table.operator}', subtask {table.subtask}, {table.table}")
        lines += [f"    {difference}" for difference in table.differences]
    return lines
