"""One Nexmark query, as a PyFlink program: `python job.py '{"query": ..., "tables": [...], ...}'`. Flink and Penstock run the same file.

`collect`: writes the final table (and the kinds of changes that were seen) to a file. Otherwise rows go to `blackhole`, and the seconds are printed, with those of the processors.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

if "penstock" in sys.argv[2:]:
    import penstock.pyflink_compat

    penstock.pyflink_compat.install()

from pyflink.common import Configuration, RowKind
from pyflink.table import EnvironmentSettings, Schema, TableDescriptor, TableEnvironment

ADDS = {RowKind.INSERT, RowKind.UPDATE_AFTER}


def environment(asked: dict[str, Any]) -> TableEnvironment:
    """A streaming environment with the tables."""
    configuration = Configuration()
    for key, value in asked["options"].items():
        configuration.set_string(key, value)
    settings = (
        EnvironmentSettings.new_instance()
        .in_streaming_mode()
        .with_configuration(configuration)
        .build()
    )
    tables = TableEnvironment.create(settings)
    for statement in asked["tables"]:
        tables.execute_sql(statement)
    return tables


def final_table(rows: Iterable[Any]) -> dict[str, Any]:
    """Fold a changelog."""
    found: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for row in rows:
        kind = row.get_row_kind()
        kinds[str(kind).rsplit(".", maxsplit=1)[-1]] += 1
        found[json.dumps(list(row), default=str)] += 1 if kind in ADDS else -1
    return {
        "kinds": dict(kinds),
        "negative": [row for row, count in found.items() if count < 0],
        "rows": sorted(row for row, count in found.items() for _ in range(count)),
    }


def processor_seconds() -> float:
    """Return what this process and all below it have taken of the processors, with those that have ended."""
    ticks: dict[int, int] = {}
    parents: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                fields = Path(entry.path, "stat").read_text().rsplit(")", maxsplit=1)[1].split()
            except OSError:  # it has ended meanwhile
                continue
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    own = {os.getpid()}
    while found := {pid for pid, parent in parents.items() if parent in own and pid not in own}:
        own |= found
    return sum(ticks.get(pid, 0) for pid in own) / os.sysconf("SC_CLK_TCK")


def main(asked: dict[str, Any]) -> None:
    """Run it."""
    begun = time.time()
    tables = environment(asked)
    query = tables.sql_query(asked["query"])
    if "collect" in asked:
        with query.execute().collect() as rows:
            Path(asked["collect"]).write_text(json.dumps(final_table(rows)))
        return
    resolved = query.get_schema()
    columns = Schema.new_builder()
    for name, kind in zip(resolved.get_field_names(), resolved.get_field_data_types(), strict=True):
        columns = columns.column(name, kind)
    sink = TableDescriptor.for_connector("blackhole").schema(columns.build())
    if "files" in asked:
        sink = (
            TableDescriptor.for_connector("filesystem")
            .schema(columns.build())
            .partitioned_by("dt", "hm")
            .option("path", asked["files"])
            .option("format", "csv")
        )
    tables.create_temporary_table("sink", sink.build())
    planned, before = time.time(), processor_seconds()
    query.execute_insert("sink").wait()
    seconds, processor = time.time() - planned, processor_seconds() - before
    print(json.dumps({"seconds": seconds, "processor": processor, "planning": planned - begun}))


main(json.loads(Path(sys.argv[1]).read_text()))
