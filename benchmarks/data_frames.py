"""How long tables take from and to Arrow, Polars and pandas, and the ratio to pandas in the same run.

python -m benchmarks.data_frames [--rows 200000] [--rounds 5]

Each round runs all of them, one after another; the median of the rounds counts. A job in this process reads the table and hands its rows
back, so a round has the cost of a job too.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster

Run = Callable[[], object]


def table_of(rows: int) -> pa.Table:
    """Return numbers, texts and times."""
    random = np.random.default_rng(7)
    numbers = random.integers(0, 1000, rows)
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "price": pa.array(random.random(rows)),
            "word": pa.array([f"word {number}" for number in numbers]),
            "at": pa.array(np.arange(rows), pa.timestamp("us")),
        }
    )


def runs_of(environment: TableEnvironment, table: pa.Table) -> dict[str, Run]:
    """Return what is measured, by name."""
    frame, pandas = pl.DataFrame(table), table.to_pandas()
    source = environment.from_arrow(table)

    def read(made: Any) -> object:
        """Read a table without getting its rows back."""
        return environment.sql_query(f"SELECT MAX(id) FROM {made}").to_polars()

    return {
        "from_pandas": lambda: read(environment.from_pandas(pandas)),
        "from_arrow": lambda: read(environment.from_arrow(table)),
        "from_polars": lambda: read(environment.from_polars(frame)),
        "to_pandas": source.to_pandas,
        "to_arrow": source.to_arrow,
        "to_polars": source.to_polars,
    }


def measure(runs: dict[str, Run], rounds: int) -> dict[str, float]:
    """Return the median of each in seconds; the first round is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(each[1:]) for name, each in seconds.items()}


def lines(found: dict[str, float], rows: int) -> list[str]:
    """Return the figures as a table; a ratio below 1 is faster than pandas."""
    shown = [f"{rows:,} rows", f"{'':<12}{'seconds':>9}{'of pandas':>11}"]
    for name, seconds in found.items():
        direction = name.partition("_")[0]
        shown.append(f"{name:<12}{seconds:>9.3f}{seconds / found[f'{direction}_pandas']:>11.2f}")
    return shown


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(arguments)
    environment = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    with MiniCluster():
        found = measure(runs_of(environment, table_of(given.rows)), given.rounds)
    print("\n".join(lines(found, given.rows)))


if __name__ == "__main__":
    main()
