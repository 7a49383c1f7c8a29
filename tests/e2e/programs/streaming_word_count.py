"""Counts words in STREAMING mode: every update is printed."""

from pyflink.common import Row, Types
from pyflink.datastream import (
    FlatMapFunction,
    MapFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)


class Split(FlatMapFunction):
    def flat_map(self, value):
        yield from value.split()


class One(MapFunction):
    def map(self, value):
        return Row(value, 1)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
env.set_parallelism(1)

lines = env.from_collection(["to be or not", "to be", "to do"], type_info=Types.STRING())
counts = (
    lines.flat_map(Split(), output_type=Types.STRING())
    .map(One(), output_type=Types.ROW([Types.STRING(), Types.INT()]))
    .key_by(lambda row: row[0], key_type=Types.STRING())
    .sum(1)
)
counts.print()
env.execute("streaming word count")
