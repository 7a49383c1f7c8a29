"""DataFrames that jobs read: checks of the program's DataFrame, and the Spark job that writes its rows to Arrow files.

Spark computes a DataFrame again whenever it is asked for its rows, and may then give others, or the same in another order (`rand()`,
a shuffle, a table that was changed). So one Spark job computes it once, and each of its tasks writes the rows of its partition to a
file. What the job reads from then on, also after a failure, are these files.
"""

from __future__ import annotations

import logging
import pickle
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from penstock.dependencies.distribution import install_command
from penstock.errors import (
    ArgumentError,
    ArgumentTypeError,
    JobCancelledError,
    PenstockError,
    UnsupportedOperationError,
)
from penstock.errors.argument_checks import describe
from penstock.files.file_system import resolve
from penstock.files.paths import join_path
from penstock.runtime.columnar.arrow_files import ArrowFile, write_arrow_file
from penstock.spark.session import active_context, cancel_jobs, in_job_group
from penstock.spark.task_events import has_started

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)

_POLL_S: Final = 0.05
# After so long without a task at work, the reader says that it waits.
_WAITS_S: Final = 10.0


# Checks


def check_data_frame(value: Any, method: str) -> DataFrame:
    """Return a DataFrame of the Spark application of this process; refuse anything else. `method` is the one that was called."""
    package = _package_of_data_frame(value)
    if package == "pyspark.sql.connect":
        raise UnsupportedOperationError(
            f"{method}() cannot read a DataFrame of Spark Connect",
            detail="its Spark application is in another process; a job reads DataFrames of the application that runs its tasks",
            hint="create the session in this process, SparkSession.builder.master(...).getOrCreate(); "
            "or write the DataFrame to files or a lake table, and read these",
        )
    if package != "pyspark.sql":
        hints = {
            "pyspark.pandas": "pass df.to_spark()",
            "pandas": "use t_env.from_pandas(df), or spark.createDataFrame(df)",
            "polars": "use t_env.from_polars(df), or spark.createDataFrame(df.to_arrow())",
        }
        raise ArgumentTypeError(
            f"{method}() takes a DataFrame of Spark, got {_shown(value)}",
            hint=hints.get(
                package, "pass a pyspark.sql.DataFrame, such as spark.read.parquet(...)"
            ),
        )
    frame: DataFrame = value
    context = active_context()
    if context is None or frame.sparkSession.sparkContext is not context:
        raise ArgumentError(
            f"{method}() got a DataFrame of a Spark application that was stopped",
            detail="jobs run in the Spark application of this process"
            + ("" if context is None else f", '{context.appName}' ({context.applicationId})"),
            hint="create the DataFrame again with the SparkSession that runs now",
        )
    return frame


def check_bounded(frame: DataFrame, method: str) -> None:
    """Refuse a streaming DataFrame."""
    if frame.isStreaming:
        raise ArgumentError(
            f"{method}() takes a bounded DataFrame, got a streaming one",
            hint="use from_spark_stream(df); or read the same data with spark.read",
        )


def check_streaming(frame: DataFrame, method: str) -> None:
    """Refuse a bounded DataFrame."""
    if not frame.isStreaming:
        raise ArgumentError(
            f"{method}() takes a streaming DataFrame, got a bounded one",
            hint="use from_spark(df); or read the same data with spark.readStream",
        )


def _package_of_data_frame(value: object) -> str:
    """Return the package of a DataFrame's library, without importing it; empty for any other object."""
    for kind in type(value).__mro__:
        if kind.__name__ in {"DataFrame", "LazyFrame"}:
            for package in ("pyspark.sql.connect", "pyspark.pandas", "pyspark.sql"):
                if f"{kind.__module__}.".startswith(f"{package}."):
                    return package
            return kind.__module__.partition(".")[0]
    return ""


def _shown(value: object) -> str:
    package = _package_of_data_frame(value)
    return f"a {package} DataFrame" if package else describe(value)


# Reading


def write_partitions(
    frame: DataFrame,
    columns: Sequence[str],
    directory: str,
    name: str,
    interrupted: Callable[[], bool],
) -> list[ArrowFile]:
    """Compute a DataFrame once and write each partition to a file; return the files in the order of the partitions that have rows.

    The files have the columns of the DataFrame under the given names. `directory` is a path or URI that executors and this process reach. `name` is that of the source, for messages and Spark's page.
    When it is interrupted, Spark's tasks are cancelled and JobCancelledError is raised.
    """
    context = frame.sparkSession.sparkContext
    group = f"penstock-read-{uuid.uuid4().hex[:8]}"
    result: dict[str, Any] = {}

    def work() -> None:
        try:
            with in_job_group(context, group, f"Penstock reads the DataFrame '{name}'", group):
                result["files"] = collect_files(frame, columns, directory, name)
        except Exception as error:  # noqa: BLE001 - raised by the thread that waits
            result["error"] = error

    thread = threading.Thread(target=work, name="penstock-read-data-frame", daemon=True)
    thread.start()
    with warn_if_waiting(frame, group, name):
        while thread.is_alive():
            if interrupted():
                cancel_jobs(group)
                raise JobCancelledError(f"reading the DataFrame '{name}' was cancelled")
            thread.join(_POLL_S)
    if "error" in result:
        raise result["error"]
    files: list[ArrowFile] = result["files"]
    return files


def collect_files(
    frame: DataFrame, columns: Sequence[str], directory: str, name: str
) -> list[ArrowFile]:
    """Do what `write_partitions` does, in a Spark job of this thread."""
    try:
        write = _writer(directory, list(columns))
        found = frame.mapInArrow(write, "partition int, file binary").collect()
    except Exception as error:
        raise spark_failure(f"Spark could not read the DataFrame '{name}'", error) from error
    files: list[ArrowFile] = [
        pickle.loads(row.file) for row in sorted(found, key=lambda row: row.partition)
    ]
    _check_visible(files, name)
    return files


def _writer(
    directory: str, columns: list[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what a task does with the batches of its partition."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        number = task.partitionId()
        # Spark may run a task twice, and takes the result of one of them: the other's file is not used.
        path = join_path(directory, f"part-{number:05}-{uuid.uuid4().hex[:12]}.arrow")
        file = write_arrow_file(path, (batch.rename_columns(columns) for batch in batches))
        if file is not None:
            yield pa.record_batch(
                [pa.array([number], "int32"), pa.array([pickle.dumps(file)], "binary")],
                ["partition", "file"],
            )

    return write


@contextmanager
def warn_if_waiting(frame: DataFrame, group: str, name: str) -> Iterator[None]:
    """Say once that Spark's tasks have no core: other jobs may hold the cores for as long as they run."""
    context = frame.sparkSession.sparkContext
    over = threading.Event()

    def look() -> None:
        if over.wait(_WAITS_S):
            return
        try:
            has_cores = has_started(context, group)
        except Exception as error:  # noqa: BLE001 - the reader has the error, if there is one
            _log.debug("Spark does not report its tasks: %s", error)
            return
        if not has_cores and not over.is_set():
            _log.warning(
                "the DataFrame '%s' is not being read: its Spark tasks have waited for a core for %g s. "
                "Other jobs hold the cores; jobs in pipelined mode do until they end",
                name,
                _WAITS_S,
            )

    threading.Thread(target=look, name="penstock-waiting-data-frame", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _check_visible(files: list[ArrowFile], name: str) -> None:
    """Check that this process sees what executors wrote: tasks elsewhere cannot read a local directory."""
    for file in files[:1]:
        system, path = resolve(file.path)
        if not system.has_file(path):
            raise PenstockError(
                f"the rows of the DataFrame '{name}' are not where all machines see them",
                detail=f"a Spark task wrote '{file.path}', which does not exist on this machine",
                hint="set execution.checkpointing.dir to a directory or URI that this process and all executors reach",
            )


def spark_failure(message: str, error: Exception) -> PenstockError:
    """Return an error of Spark in the words of a job, without the stacks of the JVM."""
    text = _reason(error)
    hint = None
    if "No module named 'penstock" in text:
        hint = f"the Python of the executors needs this package: {install_command()}"
    return PenstockError(message, detail=text, hint=hint)


def _reason(error: Exception) -> str:
    """Return what Spark says, without the stacks of the JVM."""
    lines = str(error).strip().splitlines()
    kept: list[str] = []
    for line in lines:
        if line.startswith(("JVM stacktrace", "\tat ", "Driver stacktrace")):
            break
        kept.append(line)
    return "\n".join(kept).strip() or type(error).__name__
