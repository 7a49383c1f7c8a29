"""CachedDataStream: a stream whose elements are stored by the first job for later jobs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.source import Boundedness
from penstock.connectors.stream_cache.blocks import StreamCacheSink, StreamCacheSource
from penstock.datastream.data_stream_sink import DataStreamSink
from penstock.datastream.stream import DataStream
from penstock.errors import InvalidProgramError
from penstock.graph.operator_specs import SourceSpec
from penstock.graph.transformations import OperatorTransformation, Transformation
from penstock.processes import temporary

if TYPE_CHECKING:
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment


class CachedDataStream(DataStream):
    """A stream that is computed once: the first job that uses it also stores its elements, later jobs read them.

    The elements are kept in a temporary directory of the driver's machine until `invalidate` or the end of the program.

    >>> from penstock.datastream import StreamExecutionEnvironment
    >>> from penstock.testing import MiniCluster
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> with MiniCluster():
    ...     squares = env.from_collection([1, 2, 3]).map(lambda x: x * x).cache()
    ...     first = sorted(squares.execute_and_collect())
    ...     sorted(squares.map(lambda x: -x).execute_and_collect())
    [-9, -4, -1]
    """

    def __init__(
        self, environment: StreamExecutionEnvironment, transformation: Transformation
    ) -> None:
        _check_bounded(transformation)
        super().__init__(environment, transformation)
        self._computed = transformation
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        environment.register_cache(self)

    def cache(self) -> CachedDataStream:
        """Return the stream itself."""
        return self

    def invalidate(self) -> None:
        """Drop the stored elements: the next job computes them again."""
        self._transformation = self._computed
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    def write_down(self, steps: Iterable[Transformation]) -> bool:
        """Add the sink that stores the elements, if the program computes them; called when a program is submitted."""
        if self._transformation is not self._computed or self._computed not in _ancestors(steps):
            return False
        self._directory = temporary.directory("cache")
        sink = StreamCacheSink(self._directory.name)
        DataStreamSink.create(self._environment, "Cache", sink, self._computed)
        return True

    def on_finished(self, result: Any) -> None:
        """Read the stored elements from now on, if the job that wrote them has finished successfully."""
        if self._directory is None:
            return
        if result.cancelled() or result.exception() is not None:
            shutil.rmtree(self._directory.name, ignore_errors=True)
            self._directory = None
            return
        source = StreamCacheSource(self._directory.name)
        self._transformation = OperatorTransformation(
            f"Cached {self._computed.name}",
            output_type=self._computed.output_type,
            spec=SourceSpec(source, WatermarkStrategy.no_watermarks()),
            kind="source",
        )


def _ancestors(steps: Iterable[Transformation]) -> set[Transformation]:
    found: set[Transformation] = set()
    waiting = list(steps)
    while waiting:
        step = waiting.pop()
        if step not in found:
            found.add(step)
            waiting.extend(step.inputs)
    return found


def _check_bounded(transformation: Transformation) -> None:
    for step in _ancestors([transformation]):
        source = getattr(getattr(step, "spec", None), "source", None)
        if source is not None and source.get_boundedness() is not Boundedness.BOUNDED:
            raise InvalidProgramError(
                "an unbounded stream cannot be cached",
                detail=f"source '{step.name}' is unbounded",
                hint="cache a stream of bounded sources, or write it to files",
            )
