"""The streaming query of Spark that hands the micro-batches of a streaming DataFrame to a source."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import JobCancelledError, PenstockError
from penstock.files.paths import is_local, local_path
from penstock.runtime.columnar.arrow_files import ArrowFile
from penstock.spark.data_frame_types import without_month_intervals
from penstock.spark.data_frames import collect_files, spark_failure, warn_if_waiting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)

#: Receives the number of a micro-batch, and what writes its rows to files in a directory
OnBatch = Callable[[int, Callable[[str], list[ArrowFile]]], None]


class FrameQuery:
    """A running query: calls `on_batch` with each micro-batch, in its own thread, one after another. `columns` are the names in files.

    Spark notes in `location` which offsets a micro-batch has before it hands it over, and that it was taken when `on_batch` has returned.
    A query that is started there again hands over the one that was not taken, with the same number and the same offsets.
    """

    def __init__(
        self,
        frame: DataFrame,
        columns: Sequence[str],
        location: str,
        name: str,
        on_batch: OnBatch,
        trigger_interval: str | None = None,
    ) -> None:
        self._columns = columns
        self._name = name
        self._on_batch = on_batch
        #: The error of `on_batch`: Spark knows it as text only
        self._error: Exception | None = None
        self._stopped = False
        writer = frame.writeStream.foreachBatch(self._take)
        if trigger_interval is not None:
            writer = writer.trigger(processingTime=trigger_interval)
        try:
            self._query = writer.option("checkpointLocation", _hadoop_path(location)).start()
        except Exception as error:
            raise spark_failure(f"Spark could not start the stream '{name}'", error) from error

    def _take(self, frame: DataFrame, number: int) -> None:
        try:
            self._on_batch(number, lambda directory: self._write(frame, directory))
        except Exception as error:
            self._error = error
            raise

    def _write(self, frame: DataFrame, directory: str) -> list[ArrowFile]:
        # In this thread: its Spark jobs belong to the query, whose group they are in, and end with it.
        group = frame.sparkSession.sparkContext.getLocalProperty("spark.jobGroup.id") or ""
        with warn_if_waiting(frame, group, self._name):
            return collect_files(
                without_month_intervals(frame), self._columns, directory, self._name
            )

    def check(self) -> None:
        """Raise the error of a query that has ended."""
        if self._query.isActive:
            return
        error = self._error
        if isinstance(error, PenstockError) and not isinstance(error, JobCancelledError):
            raise error
        failure: Any = self._query.exception()
        if failure is None:
            raise PenstockError(
                f"the streaming query of '{self._name}' was stopped",
                hint="the job stops it when it ends: do not call stop() on it",
            )
        raise spark_failure(f"the streaming query of '{self._name}' failed", failure) from failure

    def stop(self) -> None:
        """Stop the query, with what Spark runs for it."""
        if self._stopped:
            return
        self._stopped = True
        try:
            self._query.stop()
        except Exception as error:  # noqa: BLE001 - the application may be gone, and with it the query
            _log.warning("the streaming query of '%s' was not stopped: %s", self._name, error)


def _hadoop_path(location: str) -> str:
    """Return a directory as Hadoop's file systems know it: a path without a scheme would be in the default one.

    >>> _hadoop_path("/data/job"), _hadoop_path("hdfs://host/data")
    ('file:///data/job', 'hdfs://host/data')
    """
    return f"file://{local_path(location)}" if is_local(location) else location
