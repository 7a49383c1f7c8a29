"""Changelogs of statements of `tests/sql/statements.py` over the same random events: `python -m tests.unit.sql.changelogs` rewrites changelogs.txt.

The file has one line for each of many statements (with `all`, it gets those of all): a digest of its changelog, how many changes of each kind there are, how far the watermark has come, how much state
is left in the middle and at the end. `python -m tests.unit.sql.changelogs NAME` prints the changelog itself.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from penstock.runtime.operators.lateness import LATE
from penstock.runtime.records import MIN_WATERMARK
from penstock.sql.physical.nodes import PhysicalOperator
from penstock.sql.physical.operators.lookup_join import PhysicalLookupJoin
from penstock.sql.physical.operators.table_scan import PhysicalTableScan
from penstock.sql.physical.planner import PhysicalPlan
from tests.builders.changing_tables import as_given
from tests.builders.plan_runs import Change, ChangingTable, PlanRun
from tests.builders.timelines import BASE, BASE_MS, STEP_MS
from tests.sql.statements import MODES, Section
from tests.unit.sql.statement_plans import plan_of, statements

FILE = Path(__file__).with_suffix(".txt")
COUNT = 14
_WORDS = ("ann", "bob", "a", "", "Ümit", None)
_TIMED = ("bids", "asks", "local", "stock", "rates")
#: Rows of these tables come from the subtask of their column `k`: those of a key stay in their order.
_BY_KEY = ("bids", "asks", "local", "grown")


def runs(plan: PhysicalPlan) -> bool:
    """Whether a plan can be run here: there is no table to look rows up in."""
    return not any(isinstance(node, PhysicalLookupJoin) for node in plan.nodes)


def _row(rng: random.Random, table: str, number: int) -> tuple[Any, ...]:
    """The next row that comes into a table: a new one, or another version of one that is there."""
    moment = BASE + dt.timedelta(milliseconds=number * STEP_MS + rng.randrange(0, 3000, STEP_MS))
    k, v = rng.choice([1, 1, 2, 3, None]), rng.choice([1, 2, 4, 5, 5, 7, None])
    key = rng.randrange(1, 8)
    more = (
        rng.choice(_WORDS),
        rng.choice([None, -1.5, 0.25, 2.5, 2.5, 7.0]),
        rng.choice([None, Decimal("-0.25"), Decimal("1.50"), Decimal("1.50"), Decimal("99999.99")]),
        rng.choice([True, False, None]),
    )
    rows: dict[str, tuple[Any, ...]] = {
        "orders": (key, k, v),
        "people": (rng.randrange(1, 5), rng.choice(_WORDS), rng.choice([1, 2, 5, None])),
        "wide": (key, k, *more),
        "grown": (number, k, *more),
        "bids": (number, k, v, moment),
        "asks": (number, k, v, moment),
        "local": (number, k, v, moment),
        "stock": (key, k, v, moment),
        "rates": (rng.choice([1, 2, 3]), v, moment),
    }
    return rows[table]


def changelog(section: Section, text: str, seed: int = 1) -> tuple[list[str], str]:
    """Run a statement: first in one subtask, then in two. Return what it gives after each event, and a line about it."""
    plan = plan_of(section, text)
    rng = random.Random(seed)
    tables = sorted({n.table.path.name for n in plan.nodes if isinstance(n, PhysicalTableScan)})
    known = {name: ChangingTable() for name in tables}
    lines: list[str] = []
    states: list[str] = []
    watermark = MIN_WATERMARK
    with PlanRun(plan, seed=seed) as run:
        for number in range(COUNT if tables else 0):
            name = rng.choice(tables)
            changes: list[Change] = []
            for more in range(rng.choice([1, 2, 3, 4])):
                row = _row(rng, name, 2 * number + more)
                grows = MODES.get(name, section.mode) == "append"
                changes += [("+I", row)] if grows else known[name].change(rng, row)
            if section.batch:
                changes = [change for change in changes if change[0] == "+I"]
            run.feed(name, *as_given(changes, section.mode), by=int(name in _BY_KEY))
            run.drain()
            _take(run, lines, f"{number} {name}")
            if rng.random() < 0.4:
                ahead = rng.choice([800, 800, 2600])  # some rows that come later are behind it
                watermark = max(watermark, BASE_MS + 2 * number * STEP_MS + ahead)
                for each in tables:
                    if each in _TIMED:
                        run.advance(each, watermark)
                run.drain()
                _take(run, lines, f"{number} watermark {run.watermark - BASE_MS}")
            if rng.random() < 0.3:
                run.pass_time(rng.choice([1000, 1000, 2500]))
                run.drain()
                _take(run, lines, f"{number} clock")
            if number == COUNT // 2:
                states.append(_state(run))
                run.restart(parallelism=1 if section.batch else 2)
                run.drain()
                _take(run, lines, f"{number} restart")
        states.append(_state(run))
        run.finish()
        _take(run, lines, "end")
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
    kinds = Counter(line.split()[0] for line in lines if line.startswith("  "))
    counted = " ".join(f"{kind}{kinds[kind]}" for kind in ("+I", "-U", "+U", "-D") if kinds[kind])
    return lines, " | ".join([digest, counted or "nothing", *states])


def _take(run: PlanRun, lines: list[str], event: str) -> None:
    """Note what has come since the last time, in an order that does not depend on subtasks."""
    lines += [event, *sorted(f"  {kind} {_shown(row)}" for kind, row in run.out)]
    run.out.clear()


def _shown(value: Any) -> str:
    """A value of a row; floating point numbers to nine digits, maps in the order of their keys."""
    match value:
        case bool() | None | int() | str():
            return repr(value)
        case float():
            return f"{value:.9g}"
        case tuple() | list():
            return f"({', '.join(map(_shown, value))})"
        case dict():
            return f"({', '.join(sorted(f'{_shown(k)}: {_shown(v)}' for k, v in value.items()))})"
    return str(value)


def _state(run: PlanRun) -> str:
    """How many entries each operator has in all its subtasks, and how many rows it has dropped as late since the start."""
    found = []
    for place, node in enumerate(run.plan.nodes):
        if isinstance(node, PhysicalOperator):
            entries: Counter[str] = Counter()
            for harness in run.harnesses(place):
                entries.update(harness.state_entries())
                late = harness.metrics.report().get(LATE, ("counter", 0))[1]
                entries.update({"late": late} if late else {})
            if entries:
                sizes = " ".join(f"{name}={size}" for name, size in sorted(entries.items()))
                found.append(f"{node.name}({sizes})")
    return ", ".join(found) or "no state"


def remembered() -> dict[str, str]:
    """Return what the file has, by name."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines)


def ran(names: Iterable[str]) -> dict[str, str]:
    """Return a line for each of these statements, by name."""
    named = statements()
    return {name: changelog(*named[name])[1] for name in names}


def main(arguments: Sequence[str]) -> None:
    """Rewrite the file, or print changelogs."""
    named = statements()
    match arguments:
        case []:
            lines = ran(remembered())
        case ["all"]:
            lines = ran(name for name, each in named.items() if runs(plan_of(*each)))
        case _:
            print("\n".join(changelog(*named[" ".join(arguments)])[0]))
            return
    FILE.write_text("".join(f"{name}: {line}\n" for name, line in lines.items()), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
