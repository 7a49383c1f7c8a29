"""DataStreamSink: the end of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.datastream._settings import OperatorSettings
from penstock.graph.operator_specs import SinkSpec
from penstock.graph.transformations import OperatorTransformation, Transformation

if TYPE_CHECKING:
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment


class DataStreamSink(OperatorSettings):
    """A sink of the program; its settings can be changed like those of a stream.

    >>> from penstock.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> env.from_collection([1, 2]).print().name("console").set_parallelism(1).get_name()
    'console'
    """

    @classmethod
    def create(
        cls,
        environment: StreamExecutionEnvironment,
        name: str,
        sink: Any,
        source: Transformation,
    ) -> DataStreamSink:
        """Add a sink to the program."""
        operator = OperatorTransformation(name, inputs=(source,), spec=SinkSpec(sink), kind="sink")
        environment.register_sink(operator, sink)
        environment.add_operator(operator)
        return cls(environment, operator)

    def __repr__(self) -> str:
        return f"DataStreamSink({self._transformation.name!r})"
