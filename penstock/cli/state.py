"""`penstock state`: look into checkpoints and savepoints, and compare them."""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from penstock.errors import ArgumentError

if TYPE_CHECKING:
    from penstock.state import Snapshot, SnapshotTable

    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_LIMIT = 20
_TRIES = 20
_IN_MEMORY = 8 << 20
_EPILOG = """\
PATH is the checkpoint directory of a job (its latest checkpoint is read), a chk-N directory, a savepoint, or the id or name of a job whose
process runs. OPERATOR is a uid, a name or an id. The classes of objects in the state must be importable: put the job's modules on PYTHONPATH.
"""


def add_commands(commands: Commands) -> None:
    """Add `penstock state` to the command line."""
    state = commands.add_parser(
        "state",
        help="look into checkpoints and savepoints",
        description="Look into checkpoints and savepoints, and compare them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = state.add_subparsers(dest="action", required=True, metavar="ACTION")

    ls = actions.add_parser("ls", help="list operators and their states")
    ls.add_argument("path", metavar="PATH")
    ls.add_argument("--json", action="store_true", help="print JSON")
    ls.set_defaults(call=_ls)

    show = actions.add_parser("show", help="show the rows of a state")
    show.add_argument("path", metavar="PATH")
    show.add_argument("operator", metavar="OPERATOR", nargs="?")
    show.add_argument("state", metavar="STATE", nargs="?")
    show.add_argument("--key", metavar="K", help="only this key: a Python literal, or text")
    show.add_argument(
        "--explode", action="store_true", help="one row per list element or map entry"
    )
    show.add_argument(
        "--timers", action="store_true", help="show the registered timers of the operator"
    )
    show.add_argument(
        "--offsets", action="store_true", help="show the read position of each split of a source"
    )
    show.add_argument(
        "--watermarks", action="store_true", help="show the watermark of each subtask"
    )
    show.set_defaults(call=_show)

    diff = actions.add_parser("diff", help="show the differences between two snapshots")
    diff.add_argument("path", metavar="PATH1")
    diff.add_argument("other", metavar="PATH2")
    diff.add_argument(
        "--internal", action="store_true", help="also compare the operators' internal tables"
    )
    diff.set_defaults(call=_diff)

    for each in (show, diff):
        each.add_argument(
            "--limit",
            type=int,
            default=_LIMIT,
            metavar="N",
            help=f"number of rows, 0 for all (default: {_LIMIT})",
        )
        each.add_argument(
            "--format",
            choices=["table", "json", "csv"],
            default="table",
            help="output format; json prints one object per line",
        )
        each.add_argument(
            "--json",
            dest="format",
            action="store_const",
            const="json",
            help="the same as --format json",
        )


def _ls(given: argparse.Namespace) -> int:
    def show(out: TextIO, snapshot: Snapshot) -> None:
        text = json.dumps(_overview(snapshot), indent=2) if given.json else str(snapshot)
        out.write(f"{text}\n")

    return _print_of((given.path,), show)


def _overview(snapshot: Snapshot) -> dict[str, Any]:
    """Return the operators and states of a snapshot as JSON values."""
    return {
        "path": snapshot.path,
        "kind": snapshot.kind,
        "job": {"id": snapshot.job_id, "name": snapshot.job_name},
        "checkpoint_id": snapshot.checkpoint_id,
        "created": snapshot.created.isoformat(),
        "operators": [
            {
                "id": operator.id,
                "uid": operator.uid,
                "name": operator.name,
                "parallelism": operator.parallelism,
                "max_parallelism": operator.max_parallelism,
                "size": operator.size,
                "description": None if operator.description is None else str(operator.description),
                "states": [
                    {"name": state.name, "table": state.table, "keyed": state.is_keyed}
                    for state in operator.states
                ],
            }
            for operator in snapshot.operators
        ],
    }


def _show(given: argparse.Namespace) -> int:
    def show(out: TextIO, snapshot: Snapshot) -> None:
        from penstock.state.browsing import rows_of

        table = _chosen(snapshot, given)
        _write(out, table, rows_of(table, given.key), given)

    return _print_of((given.path,), show)


def _diff(given: argparse.Namespace) -> int:
    def compare(out: TextIO, before: Snapshot, after: Snapshot) -> None:
        table = before.diff(after, internal=given.internal)
        _write(out, table, iter(table), given)

    return _print_of((given.path, given.other), compare)


def _print_of(paths: Sequence[str], write: Callable[..., object]) -> int:
    """Print what `write(out, *snapshots)` writes.

    A running job may delete the checkpoint that is being read. Then the newest one is read from the start, so nothing is printed
    before everything is read.
    """
    from penstock import state
    from penstock.checkpoint.manifest_store import CheckpointDeletedError
    from penstock.cli.reach import directory_of

    directories = [directory_of(path) for path in paths]
    for tries in itertools.count(1):
        with tempfile.SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="utf-8", newline="") as out:
            try:
                write(out, *map(state.read, directories))
            except CheckpointDeletedError:
                if tries == _TRIES:
                    raise
                continue
            out.seek(0)
            shutil.copyfileobj(out, sys.stdout)
            return 0
    raise AssertionError


def _chosen(snapshot: Snapshot, given: argparse.Namespace) -> SnapshotTable:
    from penstock.state.browsing import choose

    if given.offsets:
        return snapshot.offsets(given.operator)
    if given.watermarks:
        return snapshot.watermarks()
    if given.operator is None:
        raise ArgumentError(
            "no operator given", hint="'penstock state ls PATH' lists operators and their states"
        )
    if given.timers:
        return snapshot.timers(given.operator)
    return choose(snapshot, given.operator, given.state, explode=given.explode)


def _write(
    out: TextIO, table: SnapshotTable, rows: Iterator[Any], given: argparse.Namespace
) -> None:
    if given.limit < 0:
        raise ArgumentError(f"--limit {given.limit} is negative", hint="0 shows all rows")
    from penstock.state.browsing import as_json

    shown = islice(rows, given.limit) if given.limit else rows
    if given.format == "json":
        out.writelines(
            json.dumps(as_json(row._asdict()), ensure_ascii=False) + "\n" for row in shown
        )
    elif given.format == "csv":
        _write_csv(out, table, shown)
    else:
        from penstock.state.tables import format_rows

        held = list(shown)
        out.write(format_rows(table.columns, held) + "\n")
        if next(rows, None) is not None:
            out.write(f"... more than {len(held)} rows: --limit 0 shows all\n")


def _write_csv(out: TextIO, table: SnapshotTable, rows: Iterator[Any]) -> None:
    from penstock.state.browsing import as_json

    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    for row in rows:
        cells = map(as_json, row)
        writer.writerow(
            json.dumps(cell, ensure_ascii=False) if isinstance(cell, dict | list) else cell
            for cell in cells
        )
