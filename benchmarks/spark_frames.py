"""How long a query takes on a DataFrame of Spark, on Penstock's own reader of the same Parquet files, and in Spark SQL, in one run.

python -m benchmarks.spark_frames [--rows 10000000] [--rounds 3] [--master local[2]]

Also what Spark needs to write all rows of the DataFrame to the files from which a job reads them, and, for comparison, to Parquet files.
Each round runs all of them, one after another; the median of the rounds counts.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any

from benchmarks.data_frames import Run, measure
from penstock.spark.data_frames import write_partitions
from penstock.spark.session import get_context
from penstock.table import EnvironmentSettings, TableEnvironment

SPARK = "Spark SQL"
QUERY = (
    "SELECT word, COUNT(*) AS n, SUM(price) AS total FROM orders WHERE price > 0.25 GROUP BY word"
)


def runs_of(session: Any, directory: str, rows: int) -> dict[str, Run]:
    """Return what is measured, by name."""
    source = f"{directory}/orders"
    made = session.range(0, rows, 1, 8).selectExpr(
        "id", "rand(7) AS price", "concat('word ', id % 1000) AS word"
    )
    made.write.parquet(source)
    frame = session.read.parquet(source)
    frame.createOrReplaceTempView("orders")

    def environment() -> TableEnvironment:
        return TableEnvironment.create(EnvironmentSettings.in_batch_mode())

    def query_frame() -> object:
        tables = environment()
        tables.create_temporary_view("orders", tables.from_spark(frame))
        return tables.sql_query(QUERY).to_arrow()

    def query_files() -> object:
        tables = environment()
        tables.execute_sql(
            "CREATE TABLE orders (id BIGINT, price DOUBLE, word STRING) "
            f"WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{source}')"
        )
        return tables.sql_query(QUERY).to_arrow()

    def write_arrow() -> None:
        write_partitions(frame, frame.columns, f"{directory}/arrow", "orders", lambda: False)
        shutil.rmtree(f"{directory}/arrow")

    return {
        SPARK: lambda: session.sql(QUERY).toArrow(),
        "own reader": query_files,
        "from_spark": query_frame,
        "written as Arrow": write_arrow,
        "written as Parquet": lambda: frame.write.mode("overwrite").parquet(f"{directory}/copy"),
    }


def lines(found: dict[str, float], rows: int) -> list[str]:
    """Return the figures as a table."""
    shown = [f"{rows:,} rows", f"{'':<20}{'seconds':>9}{'of Spark SQL':>14}{'of own reader':>15}"]
    for name, seconds in found.items():
        ratios = f"{seconds / found[SPARK]:>14.2f}{seconds / found['own reader']:>15.2f}"
        shown.append(f"{name:<20}{seconds:>9.2f}{ratios}")
    return shown


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    given = parser.parse_args(arguments)
    context = get_context({"spark.master": given.master, "spark.driver.memory": "4g"})
    from pyspark.sql import SparkSession

    directory = tempfile.mkdtemp(prefix="penstock-spark-frames-")
    try:
        found = measure(runs_of(SparkSession(context), directory, given.rows), given.rounds)
    finally:
        shutil.rmtree(directory)
    print("\n".join(lines(found, given.rows)))


if __name__ == "__main__":
    main()
