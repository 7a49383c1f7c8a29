"""Records what Flink SQL answers to the random queries of the tests.

Run it with a Python that has apache-flink: `python tools/record_flink_sql.py --count 600 tests/sql/recorded.json`. A file that is there is gone on with. Queries that Flink refuses or fails at are recorded with the first line of
the reason, and are not compared.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyflink.common import Configuration, RowKind
from pyflink.table import EnvironmentSettings, TableEnvironment

from tests.sql.random_queries import FinalTable, queries, write_tables

ADDS = (RowKind.INSERT, RowKind.UPDATE_AFTER)


def environment(home: Path) -> TableEnvironment:
    """One with the tables, whose jobs run in one task after another."""
    configuration = Configuration()
    for key, value in {
        "parallelism.default": "1",
        "table.local-time-zone": "UTC",
        "table.exec.mini-batch.enabled": "false",
    }.items():
        configuration.set_string(key, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode()
    tables = TableEnvironment.create(settings.with_configuration(configuration).build())
    for statement in write_tables(home):
        tables.execute_sql(statement)
    return tables


def answer(tables: TableEnvironment, query: str) -> dict[str, Any]:
    """The final table of a query, or why there is none."""
    try:
        final = FinalTable()
        with tables.execute_sql(query).collect() as rows:
            for row in rows:
                final.add(row, comes=row.get_row_kind() in ADDS)
        return {"rows": final.rows()}
    except Exception as error:  # noqa: BLE001 - whatever Flink says
        return {"refused": reason(str(error))}


def reason(text: str) -> str:
    """The innermost reason in a Java stack trace."""
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    return (causes[-1] if causes else text.strip().splitlines()[0])[:200]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--seed", type=int, default=11)
    asked = parser.parse_args()
    recorded = json.loads(asked.target.read_text()) if asked.target.exists() else []
    with tempfile.TemporaryDirectory() as home:
        tables = environment(Path(home))
        begun = time.time()
        begun_with = len(recorded)
        for number, (kind, query) in enumerate(queries(asked.count, asked.seed)):
            if number < begun_with:
                continue
            recorded.append({"kind": kind, "query": query, **answer(tables, query)})
            if number % 20 == 19:
                print(number + 1, f"{time.time() - begun:.0f} s", flush=True)
                write(asked.target, recorded)
    write(asked.target, recorded)


def write(target: Path, recorded: list[dict[str, Any]]) -> None:
    """Write one query a line, so that differences can be read."""
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in recorded)
    target.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


main()
