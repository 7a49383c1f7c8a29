"""Records which partitions Flink SQL commits, step after step, for the tests to compare with.

Run it with a Python that has apache-flink: `python tools/record_flink_partitions.py tests/jobs/table/partition_commits.json`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

from tests.builders.partition_commits import (
    SCENARIOS,
    STEPS,
    committed,
    forget,
    give,
    statements,
)

SETTLED_S = 4  # after which a step has had many checkpoints


def record(home: Path, name: str) -> list[list[str]]:
    """Return the partitions that each step of a scenario commits."""
    configuration = Configuration()
    for key, value in {
        "parallelism.default": "1",
        "table.local-time-zone": "UTC",
        "execution.checkpointing.interval": "300 ms",
        "restart-strategy.type": "none",
    }.items():
        configuration.set_string(key, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode()
    tables = TableEnvironment.create(settings.with_configuration(configuration).build())
    *tables_made, insert = statements(home, name, "csv")
    for statement in tables_made:
        tables.execute_sql(statement)
    client = tables.execute_sql(insert).get_job_client()
    steps = []
    time.sleep(SETTLED_S)  # until it runs
    for step in range(len(STEPS)):
        give(home, step)
        time.sleep(SETTLED_S)
        steps.append(committed(home))
        forget(home, steps[-1])
    client.cancel().result()
    return steps


def main() -> None:
    recorded = {}
    with tempfile.TemporaryDirectory() as directory:
        for number, name in enumerate(SCENARIOS):
            recorded[name] = record(Path(directory) / str(number), name)
            print(name, recorded[name], flush=True)
    Path(sys.argv[1]).write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
