"""Returns the elements of a stream to the program: `execute_and_collect`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from penstock.connectors.base.collect_buffer import CloseableIterator, CollectBuffer
from penstock.datastream.data_stream_sink import DataStreamSink
from penstock.errors.argument_checks import check_int

if TYPE_CHECKING:
    from penstock.datastream.stream import DataStream


def check_limit(limit: int | None) -> None:
    """Reject a limit that is not a positive number."""
    if limit is not None:
        check_int(limit, "limit", minimum=1)


def collect(
    stream: DataStream, job_name: str | None, limit: int | None
) -> CloseableIterator | list[Any]:
    """Run the program of a stream and return its elements: an iterator, or a list if there is a limit."""
    check_limit(limit)
    from penstock.datastream.connectors.collection import CollectSink

    environment = stream.get_execution_environment()
    buffer = CollectBuffer()
    DataStreamSink.create(
        environment, "Collect Stream Sink", CollectSink(buffer), stream.transformation
    ).set_parallelism(1)
    client = environment.execute_async(job_name or "DataStream Collect")
    iterator = CloseableIterator(buffer, client)
    if limit is None:
        return iterator
    with iterator:
        return list(itertools.islice(iterator, limit))
