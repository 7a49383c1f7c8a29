"""Records what Flink SQL answers to the random queries of the tests.

Run it with a Python that has apache-flink: `python tools/record_flink_sql.py tests/sql/recorded.json`. Queries that the file knows are not asked again. Queries that Flink refuses or
fails at are recorded with the first line of the reason, and are not compared.
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
from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from pyflink.table.udf import udf, udtf

from tests.sql.bitmap_queries import bitmap_queries
from tests.sql.more_queries import more_queries
from tests.sql.more_tables import write_more_tables
from tests.sql.random_queries import FinalTable, queries, write_tables

ADDS = (RowKind.INSERT, RowKind.UPDATE_AFTER)


def environment(home: Path) -> TableEnvironment:
    """One with the tables and functions, whose jobs run in one task after another."""
    configuration = Configuration()
    for key, value in {
        "parallelism.default": "1",
        "table.local-time-zone": "UTC",
        "table.exec.mini-batch.enabled": "false",
        "restart-strategy.type": "none",
        "python.executable": sys.executable,
    }.items():
        configuration.set_string(key, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode()
    tables = TableEnvironment.create(settings.with_configuration(configuration).build())
    for statement in [*write_tables(home), *write_more_tables(home)]:
        tables.execute_sql(statement)
    # Lambdas, which go to Flink's workers by value: those do not know this module.
    letters = udtf(lambda text: list(text or ""), result_types=[DataTypes.STRING()])
    twice = udf(lambda n: None if n is None else 2 * n, result_type=DataTypes.INT())
    tables.create_temporary_system_function("letters", letters)
    tables.create_temporary_system_function("twice", twice)
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
    parser.add_argument("--count", type=int, default=460, help="of the queries of random_queries")
    parser.add_argument("--rounds", type=int, default=7, help="of the kinds of more_queries")
    parser.add_argument("--bitmap-rounds", type=int, default=7, help="of bitmap_queries")
    parser.add_argument("--seed", type=int, default=11)
    asked = parser.parse_args()
    recorded = json.loads(asked.target.read_text("utf-8")) if asked.target.exists() else []
    known = {each["query"] for each in recorded}
    wanted = [
        *queries(asked.count, asked.seed),
        *more_queries(asked.rounds),
        *bitmap_queries(asked.bitmap_rounds),
    ]
    missing = [each for each in wanted if each[1] not in known]
    print(f"{len(missing)} queries are new")
    with tempfile.TemporaryDirectory() as home:
        tables = environment(Path(home))
        begun = time.time()
        for number, (kind, query) in enumerate(missing, 1):
            recorded.append({"kind": kind, "query": query, **answer(tables, query)})
            if number % 20 == 0:
                print(number, f"{time.time() - begun:.0f} s", flush=True)
                write(asked.target, recorded)
    write(asked.target, recorded)


def write(target: Path, recorded: list[dict[str, Any]]) -> None:
    """Write one query a line, so that differences can be read."""
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in recorded)
    target.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


main()
